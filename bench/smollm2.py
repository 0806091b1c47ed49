#!/usr/bin/env python3
"""Private fine-tuning of SmolLM2-135M on Debian's package index: every run behind docs/results, its scores and a table.

usage: bench/smollm2.py OUT [RUN...] [--shade PATH] [--core N] [--table]

  OUT    a folder: OUT/NAME is a run of `shade train`, OUT/NAME.json its scores on held-out packages (of private runs too:
         figures to compare with, not to publish)
  RUN    describe_eps8, complete_none_2, ... (default: all); runs with scores are not repeated
  --core N    all on one core, with one thread: several calls can then share a machine without slowing each other down
  --table     make nothing, print the table of the scores that are there

Needs tools/real_model and tools/debian_sections runs/debian. The base model is scored too. Scores are taken on ten
parts of 100 records each; intervals are the 2.5 % and 97.5 % quantiles of 10,000 bootstrap draws of these parts.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = ".deps/models/smollm2-135m"
PARTS = 10
NOT_PRIVATE = ["--dp", "none", "--target-epsilon", "0", "--delta", "0"]
SETTINGS = {"none": NOT_PRIVATE, "eps8": [], "eps3": ["--target-epsilon", "3"]}


def plan():
    """name -> (recipe, folder of the held-out records, more options); no recipe: the base model."""
    out = {}
    for task, seeds in (("describe", (1,)), ("complete", (1, 2, 3))):
        out[f"{task}_base"] = (None, task, [])
        for seed in seeds:
            for setting, more in SETTINGS.items():
                name = f"{task}_{setting}" + (f"_{seed}" if len(seeds) > 1 else "")
                out[name] = (f"recipes/smollm2_{task}.toml", task, [*more, "--seed", str(seed)])
    out["users_eps8"] = ("recipes/smollm2_users.toml", "complete", ["--seed", "1"])
    return out


def parts_of(task, out):
    """Folders with a tenth of the held-out records each."""
    lines = [line for file in sorted((ROOT / "runs/debian" / task / "sample").glob("*.jsonl")) for line in file.open(encoding="utf-8")]
    folders = []
    for part in range(PARTS):
        folder = out / "sample" / task / str(part)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "records.jsonl").write_text("".join(lines[part::PARTS]), encoding="utf-8")
        folders.append(folder)
    return folders


def call(command, log):
    with log.open("a") as into:
        if subprocess.run(command, cwd=ROOT, stdout=into, stderr=subprocess.STDOUT).returncode != 0:
            sys.exit(f"{' '.join(command)} failed; see {log}")


def score(shade, model, task, out, log):
    scores = []
    for folder in parts_of(task, out):
        file = log.with_suffix(".scores")
        call([*shade, "eval", str(model), "--data-folder", str(folder), "--dtype", "bf16", "--threads", "1", "--json", str(file)], log)
        result = json.loads(file.read_text())
        scores.append(result.get("not_private", result))
    return [{key: part[key] for key in ("loss", "exact_match", "records") if key in part} for part in scores]


def make(name, shade, out):
    recipe, task, more = plan()[name]
    result, log = out / f"{name}.json", out / f"{name}.log"
    if result.exists():
        return
    run = out / name
    facts = {}
    if recipe:
        call([*shade, "train", recipe, "--threads", "1", "--output", str(run), *more], log)
        facts = training(run)
    parts = score(shade, run if recipe else BASE, task, out, log)
    result.write_text(json.dumps({"name": name, "task": task, **facts, "parts": parts}, indent=1) + "\n")
    print(line(json.loads(result.read_text())), flush=True)


def training(run):
    """Steps, tokens, seconds and epsilon of a run, by its metrics."""
    steps = [json.loads(text) for text in (run / "metrics.jsonl").open()]
    own = [step.get("not_private", step) for step in steps]
    own = [step for step in own if "step_ms" in step]
    return {"steps": len(own), "tokens": sum(step["tokens"] for step in own), "seconds": sum(step["step_ms"] for step in own) / 1000,
            "epsilon": max((step["epsilon"] for step in steps if "epsilon" in step), default=None)}


def interval(values):
    """Bootstrap of the mean over parts."""
    draw = random.Random(1)
    means = sorted(statistics.mean(draw.choices(values, k=len(values))) for _ in range(10_000))
    return statistics.mean(values), means[250], means[9749]


def line(result):
    cells = [result["name"], f"{result['epsilon']:.2f}" if result.get("epsilon") else "-"]
    for key, scale, digits in (("loss", 1, 3), ("exact_match", 100, 1)):
        values = [part[key] * scale for part in result["parts"] if key in part]
        cells.append("{:.{d}f} ({:.{d}f} to {:.{d}f})".format(*interval(values), d=digits) if values else "-")
    if "seconds" in result:
        cells += [f"{result['tokens']:,.0f}", f"{result['seconds']:.0f} s", f"{result['tokens'] / result['seconds']:.0f}"]
    else:
        cells += ["-"] * 3
    return "| " + " | ".join(cells) + " |"


def table(out):
    print("| run | epsilon | loss | exact match, % | tokens | time of steps | tokens/s |\n|---|---|---|---|---|---|---|")
    for name in plan():
        if (out / f"{name}.json").exists():
            print(line(json.loads((out / f"{name}.json").read_text())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("runs", nargs="*", metavar="RUN")
    parser.add_argument("--shade", default=str(ROOT / "build/release/bin/shade"))
    parser.add_argument("--core", type=int)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if unknown := [name for name in options.runs if name not in plan()]:
        parser.error(f"no run {', '.join(unknown)}; expected {', '.join(plan())}")
    if not options.table:
        out = options.out.resolve()
        out.mkdir(parents=True, exist_ok=True)
        shade = ([] if options.core is None else ["taskset", "-c", str(options.core)]) + [options.shade]
        for name in options.runs or plan():
            make(name, shade, out)
    table(options.out)


if __name__ == "__main__":
    main()
