#!/usr/bin/env python3
"""Every link of our documents to a file or heading of this tree leads to one.

    links_test.py SOURCE_ROOT
"""
import re

from scan import finish, source_root

LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)


def anchors(page):
    """The names that GitHub gives to headings."""
    out = set()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.M):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
        number = 0
        while (name if number == 0 else f"{name}-{number}") in out:
            number += 1
        out.add(name if number == 0 else f"{name}-{number}")
    return out


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
    finish(broken, f"{len(broken)} of {number} links lead nowhere", number, least=100,
           expected="links were found; expected those of all documents")


if __name__ == "__main__":
    main(source_root())
