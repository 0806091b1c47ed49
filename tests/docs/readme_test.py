#!/usr/bin/env python3
"""The commands of README.md that use the program, as pasted, in a folder of their own.

    readme_test.py SOURCE_ROOT SHADE [--full]

Without --full a training makes six steps: its warm-up has five.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def commands(readme):
    section = readme[readme.index("## Five commands") :]
    block = re.search(r"```\n(.*?)```", section, re.S).group(1)
    lines = [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]
    return [line for line in lines if line]


def main(root, shade, full):
    lines = commands((root / "README.md").read_text())
    if len(lines) != 5:
        sys.exit(f"README.md has {len(lines)} commands; expected 5: {lines}")
    ours = [line for line in lines if line.startswith("shade ")]
    if len(ours) < 3:
        sys.exit(f"README.md has {len(ours)} commands of the program; expected 3 at least: {ours}")
    with tempfile.TemporaryDirectory(prefix="shade_readme_") as folder:
        os.symlink(root / "recipes", pathlib.Path(folder) / "recipes")
        environment = dict(os.environ, PATH=f"{shade.parent}:{os.environ['PATH']}")
        for line in ours:
            command = line + (" --steps 6" if line.startswith("shade train ") and not full else "")
            print("$", command, flush=True)
            if subprocess.run(command, shell=True, cwd=folder, env=environment).returncode != 0:
                sys.exit(f"failed: {command}")
        place = pathlib.Path(folder)
        wanted = ["released/PRIVACY.md", "released/model.safetensors", "runs/llama_nano_private/report.html"]
        if shutil.which("gnuplot"):
            wanted.append("runs/llama_nano_private/visualizations/training.png")
        for name in wanted:
            if not (place / name).is_file():
                sys.exit(f"the commands left no {name}")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), "--full" in sys.argv[3:])
