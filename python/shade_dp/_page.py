"""The page that `shade report` writes, as a notebook shows it."""
from __future__ import annotations

import html
import pathlib


class Page:
    """A page in a file; `path` is where. A notebook shows it below the cell."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Page({str(self.path)!r})"

    def _repr_html_(self) -> str:
        content = html.escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{content}" style="width: 100%; height: 800px; border: 0" sandbox="allow-scripts"></iframe>'
