#!/usr/bin/env python3
"""A step of two builds, interleaved: what a change costs.

usage: bench/commits.py OLD NEW [--rounds 60] [--half-width 0.02] [--json FILE] [-- [bench|train] options of shade]

OLD and NEW are `shade` programs. Each round starts both and lets them run by turns, one step each, while the other is
stopped: a machine that is slower for some seconds is slower for both. A step is timed from outside, from the turn's
begin to the line that says it is done. Rounds go on until the half-width of the interval is below --half-width, at least
5 and at most --rounds. Prints the geometric mean over rounds of NEW / OLD with its 95 % interval (Student's t on the
logarithms): of a step of `shade bench`, or of the time per token of a step of `shade train` but the first, because
Poisson batches differ; and of peak memory.
"""
import argparse
import json
import math
import os
import pathlib
import pty
import re
import signal
import statistics
import sys
import tempfile
import time

MODEL = ("bench --model llama3-8b --task classify --hidden-dim 512 --num-layers 4 --num-heads 8 --num-kv-heads 4 "
         "--ffn-dim 1536 --vocab-size 8192 --seq-length 512 --batch-size 2 --num-iter 20 --dp auto --shard zero3 --ranks 2 "
         "--threads 1")
FEWEST = 5  # rounds
# The 0.975 quantile of Student's t by degrees of freedom; between these, that of the next smaller one, which is larger.
T95 = {1: 12.71, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 11: 2.201, 14: 2.145,
       19: 2.093, 29: 2.045, 39: 2.023, 59: 2.001}


class Job:
    """A program on a terminal, which says on it when a step is done. It is a session: a launcher and its ranks."""

    def __init__(self, step_done, program, *words):
        self.step_done, self.ended, self.text = re.compile(step_done), False, ""
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.execv(program, [program, *words])
        self.pid = pid

    def signal(self, what):
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
                if int(fields[3]) == self.pid:
                    os.kill(int(stat.parent.name), what)
            except (FileNotFoundError, ProcessLookupError):
                pass

    def step(self):
        """Waits until a step is done; None if it ends before."""
        begin = time.perf_counter()
        while True:
            try:
                self.text += os.read(self.terminal, 1 << 16).decode(errors="replace")
            except OSError:  # closed
                self.ended = True
                if os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]):
                    sys.exit(f"failed:\n{self.text[-2000:]}")
                return None
            if found := self.step_done.search(self.text):
                self.text = self.text[found.end():]
                return 1e3 * (time.perf_counter() - begin)


def by_turns(jobs):
    """Milliseconds of each step of the jobs, by job."""
    times = [[] for _ in jobs]
    for job in jobs:  # up to the first step, which counts for nothing
        job.step()
        job.signal(signal.SIGSTOP)
    order = list(range(len(jobs)))
    while not all(job.ended for job in jobs):
        for i in order:
            if jobs[i].ended:
                continue
            jobs[i].signal(signal.SIGCONT)
            if (ms := jobs[i].step()) is not None:
                times[i].append(ms)
                jobs[i].signal(signal.SIGSTOP)
        order.reverse()
    return times


def bench(program, options, folder):
    return Job(r"bench \[[#.]*\] \d+/\d+", program, "bench", *options, "--json", str(folder / "bench.json"))


def of_bench(folder, times_ms):
    return times_ms, json.loads((folder / "bench.json").read_text())["peak_memory_mb"]


def train(program, options, folder):
    return Job(r"step +\d+/\d+ +lr", program, "train", *options, "--log-every", "1", "--output", str(folder / "run"))


def of_train(folder, times_ms):
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [line["not_private"] for line in map(json.loads, lines) if "step_ms" in line.get("not_private", {})]
    return [ms / step["tokens"] for ms, step in zip(times_ms, steps[1:])], max(s["memory_bytes"] for s in steps)


VERBS = {"bench": (bench, of_bench), "train": (train, of_train)}


def interval(logs):
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
    started, measured = VERBS[options.pop(0) if options[0] in VERBS else "bench"]
    found = {"old": [], "new": []}
    logs, memory = [], []
    for round_ in range(arguments.rounds):
        names = ("old", "new") if round_ % 2 == 0 else ("new", "old")
        with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
            folders = {"old": pathlib.Path(old), "new": pathlib.Path(new)}
            times = by_turns([started(getattr(arguments, name), options, folders[name]) for name in names])
            of = {name: measured(folders[name], ms) for name, ms in zip(names, times)}
        for name in names:
            found[name].append(of[name][0])
        logs.append(statistics.mean(math.log(n / o) for o, n in zip(of["old"][0], of["new"][0])))
        memory.append(math.log(of["new"][1] / of["old"][1]))
        mean, low, high = interval(logs)
        print(f"round {round_ + 1}: new / old {mean:.3f} ({low:.3f} to {high:.3f})", flush=True)
        if round_ + 1 >= FEWEST and (high - low) / 2 < arguments.half_width:
            break
    out = {"options": options, "ms": found, "step": interval(logs), "memory": interval(memory)}
    for what in ("step", "memory"):
        print(what.ljust(6), "new / old: {:.3f} (95 % interval {:.3f} to {:.3f})".format(*out[what]))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
