"""Shade from Python: start runs of the program `shade` and read their results.

    import shade_dp
    result = shade_dp.run("account", sigma=1.5, rate=0.04, steps=2250, delta=1e-5)
    result["epsilon"]

    shade_dp.train("recipe.toml", ranks=2, shard="zero3")
    shade_dp.read_metrics("runs/recipe")           # a dict per step
    shade_dp.metrics_frame("runs/recipe")          # the same as a pandas frame, if pandas is installed

Training runs in separate processes of the program; this module does not import torch.
"""
from ._results import metrics_frame, read_metrics, read_results, results_frame
from ._run import Result, ShadeError, environment, program, run, train

__all__ = [
    "Result",
    "ShadeError",
    "environment",
    "metrics_frame",
    "program",
    "read_metrics",
    "read_results",
    "results_frame",
    "run",
    "train",
]
