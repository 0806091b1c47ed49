"""The command `shade`: checks the installed torch, then executes the program."""
from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

from . import _torch

PACKAGE = pathlib.Path(__file__).resolve().parent
BINARY = PACKAGE / "bin" / "shade"


def environment(torch: _torch.Torch) -> dict[str, str]:
    """The program finds libtorch next to this package; a copy elsewhere is passed to the loader."""
    out = dict(os.environ)
    if not os.path.exists(PACKAGE.parent / "torch" / "lib" / "libtorch_cpu.so"):
        rest = out.get("LD_LIBRARY_PATH")
        out["LD_LIBRARY_PATH"] = str(torch.folder / "lib") + (":" + rest if rest else "")
    return out


def main() -> NoReturn:
    torch = _torch.find()
    problem = _torch.complaint(torch)
    if problem is not None or torch is None:
        sys.exit(f"shade: {problem}")
    os.execve(BINARY, ["shade", *sys.argv[1:]], environment(torch))
