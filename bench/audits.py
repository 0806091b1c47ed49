#!/usr/bin/env python3
"""Which audit finds which fault: shade audit of every kind with every planted fault, and over the number of canaries.

usage: bench/audits.py OUTPUT_DIR [--only SUBSTRING] [--quick]

Writes a result file per audit, which `shade report OUTPUT_DIR` makes a table and a picture of (it is run at the end). An audit
whose file is there already is not repeated. About an hour on one core; --quick takes a few minutes.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHADE = pathlib.Path(os.environ.get("SHADE_BIN", ROOT / "build/release/bin/shade"))
FAULTS = ["none", "half_noise", "no_clip", "rank0_noise", "no_sampling", "reused_noise", "clip_records"]
MODELS = {  # each kind on what it is strong for
    "step": "--task lm --runs 20000",
    "training": "--lora-rank 4 --dtype bf16 --max-grad-norm 0.001 --num-layers 1 --seq-length 6 --batch-size 3 --micro-batch 4 --trainings 600 --steps 8 --sample-rate 0.5 "
                "--sigma 1.5",
    "one_run": "--task lm --max-grad-norm 0.1 --canaries 500 --steps 4 --sample-rate 0.5 --sigma 4 --audit.confidence 0.95",
    "model": "--task lm --max-grad-norm 0.1 --canaries 500 --steps 4 --sample-rate 0.5 --sigma 4 --audit.confidence 0.95",
}
NOT_OF_A_STEP = {"no_sampling", "reused_noise"}
SUBTLE = {"none", "half_noise"}  # the others are found by a few trainings


def audits(quick):
    for kind, words in MODELS.items():
        for fault in FAULTS:
            if kind == "step" and fault in NOT_OF_A_STEP:
                continue
            options = ["--kind", kind, "--fault", fault, *words.split()]
            if fault == "rank0_noise":
                options += ["--ranks", "2", "--shard", "zero3"]
            if fault == "clip_records":
                options += ["--max-records-per-user", "4"]
            if kind == "training" and fault not in SUBTLE:
                options += ["--trainings", "100"]
            if kind == "training" and fault == "no_sampling":  # the smaller the claimed rate, the more is missing
                options += ["--sample-rate", "0.2"]
            if quick:
                options += {"step": ["--runs", "4000"], "training": ["--trainings", "60"]}.get(kind, ["--canaries", "200"])
            yield f"{kind}_{fault}", options
    for kind in ("one_run", "model"):
        for canaries in (30, 100, 300) if not quick else (30, 100):
            for fault in ("none", "half_noise", "no_clip"):
                yield f"{kind}_{fault}_{canaries}", ["--kind", kind, "--fault", fault, *MODELS[kind].split(), "--canaries", str(canaries)]


def last_of_each(options):
    """An option given twice counts once, the last time."""
    out = {}
    for name, value in zip(options[::2], options[1::2]):
        out[name] = value
    return [word for pair in out.items() for word in pair]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--only", default="", help="audits whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="fewer trials")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, options in audits(arguments.quick):
        file = arguments.output / f"{name}.json"
        if arguments.only not in name or file.exists():
            continue
        begin = time.monotonic()
        done = subprocess.run([SHADE, "audit", *last_of_each(options), "--json", file], capture_output=True, text=True)
        if done.returncode not in (0, 1) or not file.exists():  # 1: the claim is wrong, or nothing is shown
            sys.exit(f"{name}: status {done.returncode}\n{done.stdout}{done.stderr}")
        print(f"{name}: {done.stdout.strip().splitlines()[-1]} ({time.monotonic() - begin:.0f} s)", flush=True)
    sys.exit(subprocess.run([SHADE, "report", arguments.output]).returncode)


if __name__ == "__main__":
    main()
