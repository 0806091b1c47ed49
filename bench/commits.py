#!/usr/bin/env python3
"""A step of two builds, interleaved: what a change costs.

usage: bench/commits.py OLD NEW [--rounds 15] [--json FILE] [-- options of shade bench]

OLD and NEW are `shade` programs. Each round runs both in fresh processes, in alternating order. Prints the geometric
mean over rounds of (best step of NEW / best step of OLD) with its 95 % interval (Student's t on the logarithms), and
the same of the noise alone.
"""
import argparse
import json
import math
import statistics
import subprocess
import tempfile

MODEL = ("--model llama3-8b --task classify --hidden-dim 512 --num-layers 4 --num-heads 8 --num-kv-heads 4 --ffn-dim 1536 "
         "--vocab-size 8192 --seq-length 512 --batch-size 2 --num-iter 4 --dp auto --shard zero3 --ranks 2 --threads 1")
T95 = {4: 3.18, 9: 2.26, 14: 2.145, 19: 2.093, 29: 2.045}  # by degrees of freedom


def measured(program, options):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, "bench", *options, "--json", file.name], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        result = json.load(open(file.name))
        return min(result["times_ms"]), result["phases_ms"].get("noise", 0)


def ratio(old, new):
    logs = [math.log(n / o) for o, n in zip(old, new)]
    t = min(value for freedom, value in T95.items() if freedom <= max(4, len(logs) - 1))
    half = t * statistics.stdev(logs) / math.sqrt(len(logs))
    mean = statistics.mean(logs)
    return [math.exp(value) for value in (mean, mean - half, mean + half)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json")
    parser.add_argument("options", nargs="*", help="of shade bench, after --; default: " + MODEL)
    arguments = parser.parse_args()
    options = arguments.options or MODEL.split()
    found = {"old": [], "new": []}
    for round_ in range(arguments.rounds):
        for name in ("old", "new") if round_ % 2 == 0 else ("new", "old"):
            found[name].append(measured(getattr(arguments, name), options))
        print(f"round {round_ + 1} of {arguments.rounds}: old {found['old'][-1][0]:.1f} ms, new {found['new'][-1][0]:.1f} ms",
              flush=True)
    steps = ratio([s for s, _ in found["old"]], [s for s, _ in found["new"]])
    print("step  new / old: {:.3f} (95 % interval {:.3f} to {:.3f})".format(*steps))
    out = {"options": options, "found_ms": found, "step": steps}
    if all(noise > 0 for rows in found.values() for _, noise in rows):
        out["noise"] = ratio([n for _, n in found["old"]], [n for _, n in found["new"]])
        print("noise new / old: {:.3f} (95 % interval {:.3f} to {:.3f})".format(*out["noise"]))
    if arguments.json:
        json.dump(out, open(arguments.json, "w"), indent=1)


if __name__ == "__main__":
    main()
