"""What is called during a training: a progress bar, and loggers of other packages."""
from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from . import _optional, _results

if TYPE_CHECKING:
    from ._trainer import Trainer

WHY_NOT_PRIVATE = ("not_private=True: losses, scores and counts of a private run are computed from the records without noise. "
                   "Whoever reads them there learns more about the records than epsilon allows")


class Callback:
    """Derive from it. An exception stops the run, which saves its step first."""

    def on_train_begin(self, trainer: Trainer) -> None:
        """The program was started."""

    def on_log(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """A row of metrics was written: a step, or an evaluation."""

    def on_train_end(self, trainer: Trainer, result: Any) -> None:
        """The program ended: its result, or the exception that ended it."""


class Progress(Callback):
    """A bar of tqdm, in notebooks its own form. Without tqdm the program's lines are shown."""

    def __init__(self) -> None:
        self.available = importlib.util.find_spec("tqdm") is not None
        self._bar: Any = None
        self._shown: dict[str, str] = {}

    def on_train_begin(self, trainer: Trainer) -> None:
        if not self.available:
            return
        from tqdm.auto import tqdm

        self._bar = tqdm(total=trainer.options.get("steps"), desc="train", unit="step")

    def on_log(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        if self._bar is None or "step" not in row:
            return
        self._bar.update(row["step"] - self._bar.n)
        of = _results.flat(row)
        # Of a private run epsilon alone: loggers keep what is printed, and notebooks too.
        for name, key in (("epsilon", "epsilon"), ("loss", "loss"), ("accuracy", "eval_accuracy")):
            if of.get(key) is not None:
                self._shown[name] = f"{of[key]:.4g}"
        self._bar.set_postfix(self._shown)

    def on_train_end(self, trainer: Trainer, result: Any) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class _Logger(Callback):
    """Figures by step; those of a private run that have no noise are left out unless they are asked for."""

    def __init__(self, not_private: bool) -> None:
        self._not_private = not_private

    def _warn(self, trainer: Trainer) -> None:
        if self._not_private:
            warnings.warn(WHY_NOT_PRIVATE, stacklevel=2)

    def _figures(self, row: Mapping[str, Any]) -> dict[str, float]:
        return {key: float(value) for key, value in _results.flat(row).items()
                if isinstance(value, (int, float)) and not isinstance(value, bool) and key != "step"
                and (self._not_private or not key.startswith("not_private."))}

    @staticmethod
    def _settings(trainer: Trainer) -> dict[str, Any]:
        return {key: value if isinstance(value, (int, float, str, bool)) else str(value)
                for key, value in trainer.options.items() if value is not None}


class WandbCallback(_Logger):
    """Weights & Biases: `init` are arguments of wandb.init(), e.g. project="notes", mode="offline"."""

    def __init__(self, *, not_private: bool = False, **init: Any) -> None:
        super().__init__(not_private)
        self._init = init
        self._run: Any = None
        self._wandb = _optional.load("wandb")

    def on_train_begin(self, trainer: Trainer) -> None:
        self._warn(trainer)
        quiet = {} if self._not_private else {"settings": self._wandb.Settings(console="off")}  # what is printed may have no noise
        self._run = self._wandb.init(**{"name": trainer.name, "config": self._settings(trainer), **quiet, **self._init})

    def on_log(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self._run.log(self._figures(row), step=int(row.get("step", 0)))

    def on_train_end(self, trainer: Trainer, result: Any) -> None:
        if self._run is not None:
            self._run.finish(exit_code=1 if isinstance(result, BaseException) else 0)
            self._run = None


class MLflowCallback(_Logger):
    """MLflow, with the tracking URI and experiment that are set; `start` are arguments of mlflow.start_run()."""

    def __init__(self, *, not_private: bool = False, **start: Any) -> None:
        super().__init__(not_private)
        self._start = start
        self._run: Any = None
        self._mlflow = _optional.load("mlflow")

    def on_train_begin(self, trainer: Trainer) -> None:
        self._warn(trainer)
        self._run = self._mlflow.start_run(**{"run_name": trainer.name, **self._start})
        self._mlflow.log_params(self._settings(trainer))

    def on_log(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        self._mlflow.log_metrics(self._figures(row), step=int(row.get("step", 0)))

    def on_train_end(self, trainer: Trainer, result: Any) -> None:
        if self._run is not None:
            self._mlflow.end_run("FAILED" if isinstance(result, BaseException) else "FINISHED")
            self._run = None
