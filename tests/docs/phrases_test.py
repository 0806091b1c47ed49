#!/usr/bin/env python3
"""Documents, recipes, messages and the comments of our sources in ordinary technical English: none of the phrases of
phrases.txt is in them.

    phrases_test.py SOURCE_ROOT
"""
import re
import sys

from scan import finish, source_root

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Literals, and what holds no messages: raw strings, comments and character literals. // on consecutive lines is one.
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|R"(\w*)\(.*?\)\1"|//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/|'
                   r'\'(?:[^\'\\\n]|\\.)\'', re.S)
ESCAPES = {"\\n": "\n", "\\t": "\t", '\\"': '"'}


def phrases(file):
    out = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if line.count("\t") != 1:
            sys.exit(f"{file}:{number}: expected a phrase, a tab and what to write instead")
        phrase, instead = line.split("\t")
        out.append((re.compile(phrase.replace(" ", r"\s+"), re.I | re.M), instead))
    return out


def without_comments(code):
    """The same lines with comments and raw strings blanked. A literal with // in it stays."""
    out, at = [], 0
    for found in TOKEN.finditer(code):
        out.append(code[at : found.start()])
        text = found.group()
        literal = text.startswith('"')
        out.append(text if literal else re.sub(r"[^\n]", " ", text))
        at = found.end()
    return "".join(out) + code[at:]


def comments(code):
    """(line, text) of every // comment; those on consecutive lines are one text of as many lines."""
    for found in TOKEN.finditer(code):
        if found.group().startswith("//"):
            yield code.count("\n", 0, found.start()) + 1, re.sub(r"^[ \t]*//+", "", found.group(), flags=re.M)


def messages(code):
    """(line, text) of every literal, with the literals that follow it directly."""
    code = without_comments(code)
    text, begin, end = "", 0, None
    for found in LITERAL.finditer(code):
        words = re.sub(r"\\.", lambda e: ESCAPES.get(e.group(), " "), found.group(1))
        if end is not None and not code[end : found.start()].strip():
            text += words
        else:
            if end is not None:
                yield code.count("\n", 0, begin) + 1, text
            text, begin = words, found.start()
        end = found.end()
    if end is not None:
        yield code.count("\n", 0, begin) + 1, text


def texts(root):
    """(place, first line, text) of all that users read, and of comments."""
    pages = [root / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    pages += sorted(root.glob("docs/**/*.md")) + sorted(root.glob("recipes/*.toml")) + sorted(root.glob("examples/*.md"))
    for page in pages:
        yield page, 1, page.read_text()
    for source in sorted(root.glob("shade/**/*")):
        if source.suffix in (".h", ".cpp", ".cu"):
            code = source.read_text()
            for line, text in messages(code):
                yield source, line, " ".join(text.split())
            for line, text in comments(code):
                yield source, line, text


def main(root):
    listed = phrases(root / "tests/docs/phrases.txt")
    found = []
    number = 0
    for place, first, text in texts(root):
        number += 1
        for phrase, instead in listed:
            for hit in phrase.finditer(text):
                line = first + text.count("\n", 0, hit.start())
                words = " ".join(hit.group().split())
                found.append(f"{place.relative_to(root)}:{line}: '{words}'; write: {instead}")
    finish(found, f"{len(found)} phrases of tests/docs/phrases.txt in {number} texts", number, least=18000,
           expected="texts were read; expected documents, recipes, and over 18000 messages and comments")


if __name__ == "__main__":
    main(source_root())
