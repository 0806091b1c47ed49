#!/usr/bin/env python3
"""Options of the program that our documents name exist: those of its commands, and those that stand alone.

    options_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from phrases_test import without_comments

# "--seq-length", "--output-dir,--output", "DIR,--input-dir": how the sources declare one.
DECLARED = re.compile(r'"((?:[A-Z]+,)?--[a-z][\w-]*(?:,--[a-z][\w-]*)*)"')
FIELD = re.compile(r'\badd\(\s*"([a-z]\w*)"')
SECTION = re.compile(r'\badd\(\s*"([a-z]\w*)",\s*\w+\)')
REFUSED = re.compile(r"\{\.word = [^}]*\.refusal =[^}]*\}")  # a word that is answered with the name of ours
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.S | re.M)
SPAN = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"(?<![\w-])--([a-z][\w.-]*)")
ALWAYS = {"help", "help-all", "version", "section.key"}
# Programs that commands of ours start, or that stand before them on a line, have options of their own.
OTHERS = re.compile(r"\s(?:--|&&|\|)\s|\s#\s")


def declared(root):
    names, keys, sections = set(ALWAYS), set(), {"audit"}
    for file in sorted(root.glob("shade/**/*")):
        if file.suffix not in (".h", ".cpp"):
            continue
        code = without_comments(file.read_text())
        if file.name == "foreign_words.cpp":
            code = REFUSED.sub("", code)
        for spellings in DECLARED.findall(code):
            names.update(word.removeprefix("--") for word in spellings.split(",") if word.startswith("--"))
        keys.update(FIELD.findall(code))
        sections.update(SECTION.findall(code))
    names.update(f"{section}.{key}" for section in sections for key in keys)
    return {name.replace("_", "-") for name in names}


def commands(page):
    """Commands of the program, each on one line, without what other programs are given."""
    text = page.read_text()
    blocks = "\n".join(FENCE.findall(text)).replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in blocks.splitlines()]
    lines += [span for span in SPAN.findall(FENCE.sub("", text))]
    for line in lines:
        if re.match(r"shade [a-z]+\b", line) and not line.startswith("shade launch"):
            yield OTHERS.split(line)[0]


def lone_options(page):
    for span in SPAN.findall(FENCE.sub("", page.read_text())):
        if re.fullmatch(r"--[a-z][\w.-]*(?: [^-\s]\S*)?", span):
            yield span


def main(root):
    known = declared(root)
    ours = [root / "README.md", *sorted(root.glob("docs/**/*.md"))]
    foreign = {"words.md", "errors.md", "releasing.md", "gpu.md"}  # have words of other programs, refused ones too
    wrong, number = [], 0
    for page in ours:
        found = [*commands(page), *(lone_options(page) if page.name not in foreign else ())]
        for text in found:
            for name in OPTION.findall(text):
                number += 1
                if name.replace("_", "-").rstrip(".") not in known:
                    wrong.append(f"{page.relative_to(root)}: --{name} in '{text[:80]}' is no option of the program")
    print("\n".join(wrong))
    print(f"{len(wrong)} of {number} options in documents are unknown; {len(known)} are declared")
    if number < 500:
        sys.exit(f"only {number} options were found; expected those of all documents")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
