"""Results of runs: metrics of training, result files of bench and compare."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    import pandas

Path = Union[str, "os.PathLike[str]"]


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """A dict per line of a run's metrics.jsonl. Figures under "not_private" have no noise."""
    file = pathlib.Path(run) / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").split("\n")
    # A run that is still writing, or was killed, may leave an unfinished last line.
    return [json.loads(line) for line in lines[:-1] if line]


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


def results_frame(folder: Path) -> pandas.DataFrame:
    """read_results() as a pandas frame, a row per experiment, without lists; nested keys are joined by dots."""
    return _frame(read_results(folder))


def flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            out.update(flat(value, f"{prefix}{key}."))
        elif not isinstance(value, list):
            out[prefix + key] = value
    return out


def _frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as fault:
        raise ImportError("pandas is not installed; run: pip install pandas, or read plain dicts") from fault
    return pandas.DataFrame([flat(row) for row in rows])
