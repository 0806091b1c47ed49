"""Packages that are used if they are installed."""
from __future__ import annotations

import importlib
from typing import Any


def load(module: str, instead: str = "") -> Any:
    """The module. Raises ImportError that says how to install its package, and what to do `instead`."""
    try:
        return importlib.import_module(module)
    except ImportError as fault:
        package = module.split(".")[0]
        raise ImportError(f"{package} is not installed; run: pip install {package}{instead}") from fault
