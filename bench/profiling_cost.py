#!/usr/bin/env python3
"""What measuring costs: the same step with every ledger listening and with none (--bare), in turns, in fresh processes.

usage: bench/profiling_cost.py [--rounds 8] [--json FILE] [-- options of shade bench]

Prints the ratio of the best steps and the median over the rounds of (median with / median without).
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ("--model llama3-8b --task classify --hidden-dim 512 --num-layers 4 --num-heads 8 --num-kv-heads 4 --ffn-dim 1536 "
         "--vocab-size 4096 --seq-length 512 --batch-size 2 --num-iter 8 --threads 1")


def times(options, bare):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        words = [ROOT / "build/release/bin/shade", "bench", *options, "--json", file.name] + (["--bare"] if bare else [])
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return json.load(open(file.name))["times_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json")
    parser.add_argument("options", nargs="*", help="of shade bench, after --; default: " + MODEL)
    arguments = parser.parse_args()
    options = arguments.options or MODEL.split()
    measured, bare = [], []
    for round_ in range(arguments.rounds):
        for kind in ("measured", "bare") if round_ % 2 == 0 else ("bare", "measured"):
            (measured if kind == "measured" else bare).append(times(options, kind == "bare"))
        print(f"round {round_ + 1} of {arguments.rounds}: measured {min(measured[-1]):.1f} ms, bare {min(bare[-1]):.1f} ms (best)",
              flush=True)
    best = min(map(min, measured)) / min(map(min, bare))
    median = statistics.median(statistics.median(m) / statistics.median(b) for m, b in zip(measured, bare))
    print(f"measured / bare: {best:.4f} (best steps), {median:.4f} (median of rounds)")
    if arguments.json:
        json.dump({"options": options, "measured_ms": measured, "bare_ms": bare, "best_ratio": best, "median_ratio": median},
                  open(arguments.json, "w"), indent=1)


if __name__ == "__main__":
    main()
