#!/usr/bin/env python3
"""A step of two builds, interleaved: what a change costs.

usage: bench/commits.py OLD NEW [--rounds 60] [--half-width 0.02] [--json FILE] [-- [bench|train] options of shade]

OLD and NEW are `shade` programs. Each round runs both in fresh processes, in alternating order, until the half-width of
the interval is below --half-width, after at least 5 rounds and at most --rounds. Prints the geometric mean over
rounds of NEW / OLD with its 95 % interval (Student's t on the logarithms): of the best step of `shade bench`, or of the
least time per token of a step of `shade train` but the first, because Poisson batches differ; the same of the noise
alone, and of peak memory.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODEL = ("bench --model llama3-8b --task classify --hidden-dim 512 --num-layers 4 --num-heads 8 --num-kv-heads 4 "
         "--ffn-dim 1536 --vocab-size 8192 --seq-length 512 --batch-size 2 --num-iter 4 --dp auto --shard zero3 --ranks 2 "
         "--threads 1")
FEWEST = 5  # rounds
# The 0.975 quantile of Student's t by degrees of freedom; between these, that of the next smaller one, which is larger.
T95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 11: 2.201, 14: 2.145,
       19: 2.093, 29: 2.045, 39: 2.023, 59: 2.001}


def run(program, *words):
    subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def bench(program, options, folder):
    file = folder / "bench.json"
    run(program, "bench", *options, "--json", str(file))
    result = json.loads(file.read_text())
    return {"step": min(result["times_ms"]), "noise": result["phases_ms"].get("noise", 0), "memory": result["peak_memory_mb"]}


def train(program, options, folder):
    run(program, "train", *options, "--log-every", "1", "--output", str(folder / "run"))
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["not_private"] for line in lines[1:]]
    return {"step": min(s["step_ms"] / s["tokens"] for s in steps), "noise": 0,
            "memory": max(s["memory_bytes"] for s in steps)}


VERBS = {"bench": bench, "train": train}


def ratio(old, new):
    logs = [math.log(n / o) for o, n in zip(old, new)]
    if len(logs) < 2:
        return [math.exp(logs[0]), 0, math.inf]
    t = min(value for freedom, value in T95.items() if freedom <= len(logs) - 1)
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.mean(logs)
    return [math.exp(value) for value in (mean, mean - half, mean + half)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=60, help="at most")
    parser.add_argument("--half-width", type=float, default=0.02, help="of the interval of the step, that ends the rounds")
    parser.add_argument("--json")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser.parse_args(sys.argv[1:end])
    options = sys.argv[end + 1:] or MODEL.split()
    measured = VERBS[options.pop(0)] if options[0] in VERBS else bench
    found = {"old": [], "new": []}

    def of(what):
        return ratio(*([row[what] for row in found[name]] for name in ("old", "new")))

    for round_ in range(arguments.rounds):
        for name in ("old", "new") if round_ % 2 == 0 else ("new", "old"):
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(measured(getattr(arguments, name), options, pathlib.Path(folder)))
        mean, low, high = of("step")
        print(f"round {round_ + 1}: new / old {mean:.3f} ({low:.3f} to {high:.3f})", flush=True)
        if round_ + 1 >= FEWEST and (high - low) / 2 < arguments.half_width:
            break
    out = {"options": options, "found": found}
    for what in ("step", "noise", "memory"):
        if all(row[what] > 0 for rows in found.values() for row in rows):
            out[what] = of(what)
            print(what.ljust(6), "new / old: {:.3f} (95 % interval {:.3f} to {:.3f})".format(*out[what]))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
