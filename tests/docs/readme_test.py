#!/usr/bin/env python3
"""The commands of README.md that use the program, as pasted, in a folder of their own.

    readme_test.py SOURCE_ROOT SHADE [--full]

The opening block runs on a small model and synthetic records under the names that it uses, with six steps. The five
commands run as they are; without --full the training makes six steps: its warm-up has five.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


# What a reader of the opening block has: a model and records. 100 kB are about 300 records.
PREPARED = """shade data --write-sample sample --size 100kB --seed 1
shade train --model llama-nano --from-scratch --task lm --vocab-size 260 --data-folder sample --packing packed \\
  --seq-length 64 --batch-size 8 --steps 6 --output runs/base --export FOLDER
cp sample/labelled/lines_00000.jsonl records.jsonl
head -n 40 records.jsonl > held_out.jsonl"""


def block_after(readme, heading):
    return re.search(r"```\n(.*?)```", readme[readme.index(heading) :], re.S).group(1)


def opening(readme):
    block = block_after(readme, "# Shade\n")
    for part in ("--model FOLDER", "--data-folder records.jsonl", "--data-folder held_out.jsonl", "--steps 500 "):
        if part not in block:
            sys.exit(f"the opening block of README.md has no {part}: {block}")
    return block.replace("--steps 500 ", "--steps 6 ")


def five(readme, full):
    lines = [re.sub(r"\s+#.*", "", line) for line in block_after(readme, "## Five commands").splitlines()]
    if len(lines) != 5:
        sys.exit(f"README.md has {len(lines)} commands; expected 5: {lines}")
    ours = [line for line in lines if line.startswith("shade ")]
    if len(ours) < 3:
        sys.exit(f"README.md has {len(ours)} commands of the program; expected 3 at least: {ours}")
    return [line + (" --steps 6" if line.startswith("shade train ") and not full else "") for line in ours]


def run(commands, shade, place, wanted):
    environment = dict(os.environ, PATH=f"{shade.parent}:{os.environ['PATH']}")
    for command in commands:
        print("$", command, flush=True)
        if subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=place, env=environment).returncode != 0:
            sys.exit(f"failed: {command}")
    for name in wanted:
        if not (place / name).is_file():
            sys.exit(f"the commands left no {name}")


def main(root, shade, full):
    readme = (root / "README.md").read_text()
    with tempfile.TemporaryDirectory(prefix="shade_readme_") as folder:
        run([PREPARED, opening(readme)], shade, pathlib.Path(folder), ["released/PRIVACY.md", "released/model.safetensors"])
    with tempfile.TemporaryDirectory(prefix="shade_readme_") as folder:
        place = pathlib.Path(folder)
        (place / "recipes").symlink_to(root / "recipes")
        wanted = ["released/PRIVACY.md", "released/model.safetensors", "runs/llama_nano_private/report.html"]
        if shutil.which("gnuplot"):
            wanted.append("runs/llama_nano_private/visualizations/training.png")
        run(five(readme, full), shade, place, wanted)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), "--full" in sys.argv[3:])
