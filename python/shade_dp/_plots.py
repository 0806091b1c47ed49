"""Pictures of runs with matplotlib, in the colours of `shade report`."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _optional, _results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of shade/report/palette.cpp, in its order.
COLOURS = ("#1f77c9", "#d55e00", "#009e73", "#cc5fa5", "#e69f00", "#7a52cc", "#56b4e9", "#7d8799")
# Panels: title, columns by the names of their lines. Those of not_private.* are read where the plain name is absent.
PANELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("loss", {"loss": "training", "eval_loss": "held out", "test_loss": "test"}),
    ("score", {"eval_accuracy": "accuracy", "eval_f1": "F1 (macro)", "eval_majority": "always the most frequent class"}),
    ("perplexity", {"eval_perplexity": "held out"}),
    ("epsilon", {"epsilon": "spent"}),
)
BASELINES = ("eval_majority",)


def plot_metrics(runs: Sequence[Mapping[str, Any]] | Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Rows of read_metrics(), or {name: rows} of several runs: loss, scores and epsilon over steps, a panel each.

    Losses and scores of private runs have no noise, and the axis says so.
    """
    pyplot = _optional.load("matplotlib.pyplot")
    named = dict(runs) if isinstance(runs, Mapping) else {"": runs}
    flat = {name: [_results.flat(row) for row in rows] for name, rows in named.items()}
    panels = [panel for panel in PANELS if any(_points(rows, column) for rows in flat.values() for column in panel[1])]
    if not panels:
        raise ValueError("no metrics yet: the first row is written after `log_every` steps")
    figure: Figure
    figure, axes = pyplot.subplots(len(panels), 1, figsize=(8, 2.6 * len(panels)), sharex=True, squeeze=False,
                                   layout="constrained")
    for axis, (title, columns) in zip(axes[:, 0], panels):
        _draw(axis, title, columns, flat)
    axes[-1, 0].set_xlabel("step")
    return figure


def _draw(axis: Axes, title: str, columns: Mapping[str, str], runs: Mapping[str, list[dict[str, Any]]]) -> None:
    lines, bare = 0, False
    for run, rows in runs.items():
        for column, words in columns.items():
            points = _points(rows, column)
            if not points:
                continue
            bare = bare or any(f"not_private.{column}" in row for row in rows)
            steps, values = zip(*points)
            baseline = column in BASELINES
            axis.plot(steps, values, label=f"{run}: {words}" if run else words, color="#7d8799" if baseline else COLOURS[lines % 7],
                      linestyle="--" if baseline else "-", marker="o" if len(points) == 1 else "", linewidth=1.6)
            lines += not baseline
    axis.set_ylabel(f"{title}\n(not private)" if bare else title)
    axis.grid(axis="y", color="#e2e2e2")
    axis.spines[["top", "right"]].set_visible(False)
    if lines > 1 or columns.keys() & set(BASELINES):
        axis.legend(frameon=False, fontsize=9)


def plot_results(results: Iterable[Mapping[str, Any]]) -> Figure:
    """Rows of read_results(): time and memory of each experiment of `shade compare`."""
    rows = [row for row in results if "avg_time_ms" in row]
    if not rows:
        raise ValueError("no measured rows; read_results() of a folder of shade compare")
    pyplot = _optional.load("matplotlib.pyplot")
    names = [str(row["file"]).removesuffix(".json").removesuffix("_result") for row in rows]
    figure: Figure
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 0.45 * len(rows) + 1.2), sharey=True, layout="constrained")
    for axis, key, title, colour in ((axes[0], "avg_time_ms", "time of a step in ms", COLOURS[0]),
                                     (axes[1], "peak_memory_mb", "peak memory in MiB", COLOURS[2])):
        axis.barh(names, [float(row[key]) for row in rows], color=colour)
        axis.set_xlabel(title)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].invert_yaxis()
    return figure


def _points(rows: list[dict[str, Any]], column: str) -> list[tuple[float, float]]:
    values = ((row.get("step"), row.get(column, row.get(f"not_private.{column}"))) for row in rows)
    return [(float(step), float(value)) for step, value in values if step is not None and value is not None]
