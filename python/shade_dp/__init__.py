"""Shade from Python: private training on data frames, and every verb of the program `shade`.

    import shade_dp
    trainer = shade_dp.Trainer("llama-nano", frame, from_scratch=True, task="classify", classes=["no", "yes"],
                               target_epsilon=3, delta=1e-4, steps=60, batch_size=64)
    trainer.train()                                # with a progress bar; interrupted, the same call continues
    trainer.release("released")

    shade_dp.run("account", sigma=1.5, rate=0.04, steps=2250, delta=1e-5)["epsilon"]
    shade_dp.metrics_frame("runs/recipe")          # of any run; read_metrics() gives dicts

Training runs in separate processes of the program; this module does not import torch.
"""
from ._callbacks import Callback, MLflowCallback, WandbCallback
from ._hub import pull, push
from ._page import Page
from ._plots import plot_metrics, plot_results
from ._results import ledger_frame, metrics_frame, plan_frame, predictions_frame, read_metrics, read_results, results_frame
from ._run import Result, ShadeError, environment, program, run, train
from ._trainer import Trainer

__all__ = [
    "Callback",
    "MLflowCallback",
    "Page",
    "Result",
    "ShadeError",
    "Trainer",
    "WandbCallback",
    "environment",
    "ledger_frame",
    "metrics_frame",
    "plan_frame",
    "plot_metrics",
    "plot_results",
    "predictions_frame",
    "program",
    "pull",
    "push",
    "read_metrics",
    "read_results",
    "results_frame",
    "run",
    "train",
]
