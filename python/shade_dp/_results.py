"""Results of runs: metrics of training, result files of bench and compare."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Union

from . import _optional

if TYPE_CHECKING:
    import pandas

Path = Union[str, "os.PathLike[str]"]


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """A dict per line of a run's metrics.jsonl. Figures under "not_private" have no noise."""
    return _lines(pathlib.Path(run) / "metrics.jsonl")


def _lines(file: pathlib.Path) -> list[dict[str, Any]]:
    # A run that is still writing, or was killed, may leave an unfinished last line.
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1] if line]


class Tail:
    """Rows of a metrics.jsonl that are written after this was made, each given once, also where a loop over them is left
    early. A run that continues removes those of steps that it makes again, and writes the file anew."""

    def __init__(self, file: pathlib.Path) -> None:
        self._file, self._inode, self._at = file, -1, 0
        self._known: list[bytes] = []
        self._read()
        self._unseen: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Those that are there by now."""
        self._unseen += self._read()
        while self._unseen:
            yield self._unseen.pop(0)

    def _read(self) -> list[dict[str, Any]]:
        try:
            with open(self._file, "rb") as file:
                found = os.fstat(file.fileno())
                grown = found.st_ino == self._inode and found.st_size >= self._at
                if grown and found.st_size == self._at:
                    return []
                begin = self._at if grown else 0
                file.seek(begin)
                whole = file.read()
        except FileNotFoundError:
            return []
        whole = whole[:whole.rfind(b"\n") + 1]  # an unfinished line is read when it is whole
        lines = whole.split(b"\n")[:-1]
        fresh = lines
        if not grown:
            same = next((i for i, pair in enumerate(zip(self._known, lines)) if pair[0] != pair[1]),
                        min(len(self._known), len(lines)))
            fresh = lines[same:]
            self._known = lines[:same]
        self._known += fresh
        self._inode, self._at = found.st_ino, begin + len(whole)
        return [json.loads(line) for line in fresh if line]


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Result files of `shade compare` or `shade bench --json` in a folder, sorted by name, with failed rows."""
    out = []
    for file in sorted(pathlib.Path(folder).glob("*.json")):
        content = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(content, dict) and ("avg_time_ms" in content or content.get("failed")):
            out.append({"file": file.name, **content})
    return out


def metrics_frame(run: Path) -> pandas.DataFrame:
    """read_metrics() as a pandas frame; nested keys are joined by dots: "not_private.loss"."""
    return _frame(read_metrics(run))


def predictions_frame(file: Path) -> pandas.DataFrame:
    """What `shade eval --predictions FILE` wrote as a pandas frame, a row for each record, by its number."""
    return _frame(_lines(pathlib.Path(file))).set_index("record")


def results_frame(folder: Path) -> pandas.DataFrame:
    """read_results() as a pandas frame, a row per experiment, without lists; nested keys are joined by dots."""
    return _frame(read_results(folder))


def plan_frame(plan: Mapping[str, Any]) -> pandas.DataFrame:
    """What run("plan", ...) or Trainer.plan() gave as a pandas frame, a row per planned run."""
    return _frame({key: value for key, value in row.items() if key != "config"} for row in plan["rows"])


def ledger_frame(ledger: Mapping[str, Any]) -> pandas.DataFrame:
    """What run("ledger", FILE) gave as a pandas frame, a row per run and kind of steps."""
    return _frame(ledger["events"])


def flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            out.update(flat(value, f"{prefix}{key}."))
        elif not isinstance(value, list):
            out[prefix + key] = value
    return out


def _frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    frames = _optional.load("pandas", instead=", or read plain dicts")
    frame: pandas.DataFrame = frames.DataFrame([flat(row) for row in rows])
    return frame
