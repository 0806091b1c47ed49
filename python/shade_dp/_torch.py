"""The installed torch, found without importing it: that would take seconds."""
from __future__ import annotations

import importlib.util
import pathlib
import re
from typing import NamedTuple, Optional

WANTED = "2.15"
REMEDY = "pip install 'torch>=2.15,<2.16'"


class Torch(NamedTuple):
    folder: pathlib.Path
    version: str  # empty: its wheel doesn't say


def find() -> Optional[Torch]:
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    # Python 3.9 leaves a relative entry of sys.path as it is; the program may be started in another folder.
    folder = pathlib.Path(next(iter(spec.submodule_search_locations))).absolute()
    try:
        words = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)['\"]", words, re.MULTILINE)
    return Torch(folder, found.group(1) if found else "")


def complaint(torch: Optional[Torch]) -> Optional[str]:
    """One line that says what is wrong and how to fix it; None if the program can run with this torch."""
    if torch is None:
        return f"torch {WANTED} is needed and is not installed; run: {REMEDY}"
    if re.match(re.escape(WANTED) + r"(\.|$|[a-z+])", torch.version) is None:
        return f"torch {WANTED} is needed, found {torch.version or 'an unknown version'} in {torch.folder}; run: {REMEDY}"
    if not (torch.folder / "lib" / "libtorch_cpu.so").exists():
        return f"the torch in {torch.folder} has no lib/libtorch_cpu.so; run: pip install --force-reinstall 'torch>=2.15,<2.16'"
    return None
