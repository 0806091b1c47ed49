#!/usr/bin/env python3
"""Blocks of commands in docs/*.md that are marked as runnable, page by page, in a folder of their own.

    commands_test.py SOURCE_ROOT SHADE [--full]

A line `<!-- run -->` before a block marks it. The blocks of a page run in order, in one folder, and each must succeed.
Without --full a training makes six steps.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MARKED = re.compile(r"^<!-- run -->\n```\w*\n(.*?)^```", re.S | re.M)


def shortened(block):
    return re.sub(r"(?<=--steps )\d+", "6", block) if re.search(r"^shade train ", block, re.M) else block


def run(page, shade, full):
    blocks = MARKED.findall(page.read_text())
    environment = dict(os.environ, PATH=f"{shade.parent}:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory(prefix="shade_docs_") as folder:
        for block in blocks:
            commands = block if full else shortened(block)
            print(commands, flush=True)
            if subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment).returncode != 0:
                sys.exit(f"{page}: failed:\n{commands}")
    return len(blocks)


def main(root, shade, full):
    number = sum(run(page, shade, full) for page in sorted(root.glob("docs/*.md")))
    print(f"{number} blocks ran")
    if number < 7:
        sys.exit(f"only {number} marked blocks were found; expected those of docs/first_run.md at least")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), "--full" in sys.argv[3:])
