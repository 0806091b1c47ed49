#!/usr/bin/env python3
"""Random options of every verb, with values that --describe-options allows and some that it doesn't: the program ends in
time, with status 0, 1 or 2, and in its own words.

usage: random_options_test.py SHADE [--number 300] [--seed 1] [--limit 90]
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

FOREIGN = ("filesystem error", "json.exception", "c10::", "c10/", "basic_", "terminate", "FATAL", "internal:", "std::",
           "Traceback", "Aborted", "Segmentation")
TINY = "--from-scratch --synthetic --records 16 --steps 2 --batch-size 4"
BASES = {
    "account": ["--sigma 1 --rate 0.1 --steps 10", "--epsilon 4 --rate 0.1 --steps 10"],
    "audit": ["--model linear-nano --runs 100", "--kind one_run --model linear-nano --canaries 10 --steps 2"],
    "bench": ["--model llama-nano --seq 8 --num-iter 1", "--model dit-nano --num-iter 1", "--model linear-nano"],
    "comm": ["--ranks 2 --sizes 4KiB --num-iter 1"],
    "compare": ["--model linear-nano --num-iter 1 --repeat 1 --dp none,ghost"],
    "data": ["--data-folder records", "--write-sample corpus --size 4KiB"],
    "doctor": ["--self-test false"],
    "eval": ["nowhere --data-folder records"],
    "generate": ["nowhere --prompt x"],
    "ledger": ["ledger", "--create ledger --epsilon 1 --delta 1e-5"],
    "plan": ["--model llama-nano --seq 8 --dp none,ghost", "--model llama3-8b --num-layers 1 --dp auto --ranks 2"],
    "release": ["nowhere released"],
    "report": ["records"],
    "scan": ["--model llama-nano --seq 4,8 --num-iter 1 --repeat 1"],
    "train": [f"--model llama-nano --seq 8 {TINY}", f"--model dit-nano {TINY}", f"--model linear-nano {TINY}",
              f"--model llama-nano --seq 8 {TINY} --dp auto --sigma 1",
              "--model llama-nano --from-scratch --data-folder records --steps 1 --batch-size 1 --seq 8"],
    "verify": ["--model linear-nano --dp ghost --shard none"],
}
OFTEN = ["train", "train", "train", "bench", "bench", "plan"]
# Options that make a run long, start other programs, or wait for others by design.
LEFT_OUT = {"--help", "-h", "--help-all", "--peers", "--all", "--num-iter", "--warmup-iter", "--preset", "--scale", "--runs",
            "--trainings", "--canaries", "--repeats", "--time-budget", "--tokens", "--row-limit", "--advise", "--ranks",
            "--num-steps", "--steps", "--records", "--sample-corpus", "--size", "--nproc-per-node", "--iterations"}
NUMBERS = ["0", "1", "2", "3", "5", "8", "-1", "0.5", "1e-6", "9223372036854775807", "x"]
TEXTS = ["", "x", "nowhere", "records", "bytes", "/dev/null", "a,b", "ü", "x/y/z", "-"]


def value_of(option, pick):
    if option["choices"] and pick.random() < 0.95:
        return pick.choice(option["choices"])
    kind = option["type"]
    if kind in ("integer", "number", "integers"):
        small = [word for word in NUMBERS if pick.random() < 0.5 or len(word) < 4]
        bounds = [format(bound, ".17g") for bound in (option["range"]["min"], option["range"]["max"]) if bound is not None]
        return pick.choice((small or NUMBERS) + bounds)
    if kind in ("bytes", "sizes"):
        return pick.choice(["0", "1", "4096", "64KiB", "1MiB", "-1", "x"])
    if kind == "seconds":
        return pick.choice(["0", "1s", "5s", "100ms", "x"])
    if kind == "switch":
        return pick.choice(["true", "false"])
    return pick.choice(TEXTS)


def command(shade, pick, known):
    verb = pick.choice(sorted(BASES) + OFTEN)
    if verb not in known:
        out = subprocess.run([shade, verb, "--describe-options"], capture_output=True, text=True, check=True).stdout
        known[verb] = [o for o in json.loads(out)["options"] if not o["argument"] and o["name"] not in LEFT_OUT]
    words = [verb, *pick.choice(BASES[verb]).split()]
    for option in pick.sample(known[verb], min(len(known[verb]), pick.choice([1, 1, 2, 2, 3, 5]))):
        if option["type"] == "flag":
            words.append(option["name"])
            continue
        words.append(f"{option['name']}={value_of(option, pick)}")
    return words


def fault_of(shade, words, limit):
    with tempfile.TemporaryDirectory(prefix="shade_random_") as folder:
        os.mkdir(os.path.join(folder, "records"))
        with open(os.path.join(folder, "records", "r.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": f"record {i}", "label": "ab"[i % 2]}) + "\n" for i in range(24))
        try:
            done = subprocess.run([shade, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return f"has not ended after {limit} s"
    said = done.stdout.decode("utf-8", "replace")
    if done.returncode not in (0, 1, 2):
        return f"status {done.returncode}: {said[-400:]}"
    found = [word for word in FOREIGN if word in said]
    if found:
        return f"says {found}: {said[-400:]}"
    return None if done.returncode == 0 or said.strip() else "failed without a word"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shade", type=os.path.abspath)
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=90)
    asked = parser.parse_args()
    pick, known, faults = random.Random(asked.seed), {}, 0
    for number in range(asked.number):
        words = command(asked.shade, pick, known)
        fault = fault_of(asked.shade, words, asked.limit)
        if fault:
            faults += 1
            print(f"{number}: shade {' '.join(repr(w) if ' ' in w or not w else w for w in words)}\n  {fault}", flush=True)
    print(f"{asked.number} combinations with seed {asked.seed}, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
