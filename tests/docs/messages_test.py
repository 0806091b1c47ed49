#!/usr/bin/env python3
"""Messages that errors.md and troubleshooting.md quote are still messages of the program, and errors.md names every kind of error.

    messages_test.py SOURCE_ROOT

A message is made of parts (text("rank ", 3, " of ", 4)), so a quoted one is found by the longest run of its words that
the sources have.
"""
import pathlib
import re
import sys

from phrases_test import messages

SPAN = re.compile(r"`([^`]+)`")
CELL = re.compile(r"^\| (.*?) \|")
KIND = re.compile(r"^class (\w+) (?:final )?: public (?:\w+::)?(?:std::runtime_error|\w*Error)\b", re.M)
FEWEST = 3  # words of a run
OURS = (".h", ".cpp", ".cu")


def sources(root):
    return [file for file in sorted(root.glob("shade/**/*")) if file.suffix in OURS]


def all_texts(root):
    """What the program, its build and its launcher can say, with one space between words."""
    out = []
    for file in sources(root):
        out += [text for _, text in messages(file.read_text())]
    out += [file.read_text() for file in (root / "CMakeLists.txt", *sorted(root.glob("cmake/*.cmake")), *sorted(root.glob("python/**/*.py")))]
    return "\n".join(" ".join(text.split()) for text in out)


def quoted(page):
    """(line, message) of the first column of the page's tables."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if cell := CELL.match(line):
            for span in SPAN.findall(cell.group(1)):
                if not span.startswith(("--", "shade ")) and any(len(run) >= 2 for run in fixed_runs(span)):
                    yield number, span


def fixed_runs(message):
    """The parts of a message between what varies: dots, and words with digits or quotes."""
    runs, run = [], []
    for word in message.split():
        if word == "..." or re.search(r"[\d\"]|/|\.\.\.|^FILE|^ROW", word):
            runs.append(run)
            run = []
        else:
            run.append(word)
    return [run for run in [*runs, run] if run]


def longest_found(words, texts):
    for size in range(len(words), 0, -1):
        for begin in range(len(words) - size + 1):
            if " ".join(words[begin : begin + size]) in texts:
                return size
    return 0


def is_ours(message, texts):
    """Some part has three words in a row that the sources have, or more than half of a short one."""
    for run in fixed_runs(message):
        found = longest_found(run, texts)
        if found >= FEWEST or (found >= 2 and 2 * found > len(run)):
            return True
    return False


def main(root):
    texts = all_texts(root)
    wrong, number = [], 0
    for name in ("docs/errors.md", "docs/troubleshooting.md"):
        for line, message in quoted(root / name):
            number += 1
            if not is_ours(message, texts):
                wrong.append(f"{name}:{line}: '{message}' is no message of the sources any more")
    kinds = {kind for file in sources(root) for kind in KIND.findall(file.read_text())}
    page = (root / "docs/errors.md").read_text()
    wrong += [f"docs/errors.md doesn't name the kind of error {kind}" for kind in sorted(kinds) if not re.search(rf"`(\w+::)?{kind}`", page)]
    if is_ours("the giraffe of rank 7 sings in the garden", texts):
        wrong.append("a message that nothing says was found in the sources")
    print("\n".join(wrong))
    print(f"{len(wrong)} faults in {number} messages and {len(kinds)} kinds of errors")
    if number < 80 or len(kinds) < 4:
        sys.exit("too few were found; expected those of both pages")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
