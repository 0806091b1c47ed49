"""C++ in README.md and docs/embedding.md is part of a program in examples/, which a test builds and runs.

usage: snippets_test.py SOURCE_ROOT
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
programs = {path.name: " ".join(path.read_text().split()) for path in (root / "examples").iterdir() if path.suffix in (".cpp", ".h")}


def blocks(page):
    return re.findall(r"```cpp\n(.*?)```", (root / page).read_text(), re.S)


found = {page: blocks(page) for page in ("README.md", "docs/embedding.md")}
for page, codes in found.items():
    if not codes:
        sys.exit(f"{page} has no C++")
    for code in codes:
        if not any(" ".join(code.split()) in program for program in programs.values()):
            sys.exit(f"{page}: no program in examples/ has\n{code}")
readme = found["README.md"][0]
whole = [name for name, program in programs.items() if program.endswith(" ".join(readme.split()))]
lines = [line for line in readme.splitlines() if line.strip()]
if not whole or not readme.startswith("#include") or len(lines) > 25:
    sys.exit(f"README's program is not a whole one of at most 25 lines: {len(lines)} lines, {whole}")
words = len((root / "docs/embedding.md").read_text().split())
if words > 1500:
    sys.exit(f"docs/embedding.md has {words} words; expected at most 1500")
print(f"README: {len(lines)} lines, {whole[0]}; {sum(map(len, found.values()))} blocks; embedding.md: {words} words")
