#!/usr/bin/env python3
"""Every link of our documents to a file or heading of this tree leads to one, and every source that they name is there.

    links_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from scan import finish, source_root

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from pages import FENCE, headings  # noqa: E402

LINK = re.compile(r"\]\(([^()\s]+)\)")
# `tests/docs/links_test.py`, and `nn/tap.h` or `nn/tap` of shade/
SOURCE = re.compile(r"`((?:[a-z_]+/)+[a-z_0-9]+(?:\.[a-z]+)?)`")


def anchors(page):
    return {anchor for _, anchor in headings(page.read_text())}


def main(root):
    pages = sorted(root.glob("*.md")) + sorted(root.glob("docs/**/*.md")) + sorted(root.glob("bench/**/*.md"))
    broken, number = [], 0
    for page in pages:
        for target in LINK.findall(FENCE.sub("", page.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            number += 1
            path, _, anchor = target.partition("#")
            place = (page.parent / path).resolve() if path else page
            if not place.exists():
                broken.append(f"{page.relative_to(root)}: {target}: no such file")
            elif anchor and place.suffix == ".md" and anchor not in anchors(place):
                broken.append(f"{page.relative_to(root)}: {target}: no such heading")
        if page.name == "CHANGELOG.md":  # of other times
            continue
        for name in SOURCE.findall(page.read_text()):
            for above in (root, root / "shade"):
                if (above / name.split("/")[0]).is_dir() and name.split("/")[0] not in ("build", "runs"):
                    number += 1
                    if not (above / name).exists() and not list(above.glob(name + ".*")) and name != "shade/version.h":  # made by the build
                        broken.append(f"{page.relative_to(root)}: {name}: no such source")
    finish(broken, f"{len(broken)} of {number} links and sources lead nowhere", number, least=100,
           expected="links were found; expected those of all documents")


if __name__ == "__main__":
    main(source_root())
