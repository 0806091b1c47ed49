#!/usr/bin/env python3
"""Predicted against measured: `shade plan` and `shade bench` of the same words, over families, strategies, methods,
types, adapters, checkpointing and ranks. Writes tables and pictures, and every row as JSON.

  bench/plan_error.py                      # memory, traffic, process: 127 runs
  bench/plan_error.py --times              # time of a step: 48 runs, each twice; on an otherwise idle machine
  bench/plan_error.py --only "ranks 2" --output results      # rows whose words contain it
  bench/plan_error.py --page               # tables and pictures of the rows that are there

Runs that are in the output already are not made again; plans are. Device profiles are measured by `shade calibrate` with the
ranks and threads of the runs, once, and kept in the folder --profiles.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import plan_cases
import plan_page

HEADER = pathlib.Path(__file__).parent.parent / "shade/plan/measured_error.h"
REPEATS = 6  # of a run whose memory differs from the plan by more than 0.5 %
PUBLISHED = pathlib.Path(__file__).parent.parent / "docs/results/planning"


def result(binary, verb, words):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        run = subprocess.run([binary, verb, *words.split(), "--json", str(file)], capture_output=True, text=True)
        if run.returncode != 0:
            return None, (run.stderr.strip().splitlines() or ["no reason given"])[-1]
        return json.loads(file.read_text()), None


class Machine:
    """Threads per rank, and a device profile for every number of ranks."""

    def __init__(self, options, threads=None):
        self.options, self.threads_of_all = options, threads

    def threads(self, ranks):
        return self.threads_of_all or max(1, len(os.sched_getaffinity(0)) // ranks)

    def profile(self, ranks):
        threads = self.threads(ranks)
        file = self.options.profiles / f"{ranks}_ranks_{threads}_threads.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            print("calibrating", ranks, "ranks", flush=True)
            subprocess.run([self.options.binary, "calibrate", "--ranks", str(ranks), "--threads", str(threads), "--time", str(self.options.calibrate),
                            "--json", str(file)], check=True, stdout=subprocess.DEVNULL)
        return file


def run_once(binary, row):
    run, fault = result(binary, "bench", f"{row['words']} --num-iter 1 --threads 1")
    if fault is not None:
        row["failed"] = fault
        return
    row.setdefault("runs_mb", []).append(run["peak_memory_mb"])
    if run["peak_memory_mb"] == max(row["runs_mb"]):
        row |= {"measured_mb": run["peak_memory_mb"], "measured_owner": run["peak_owner"]["words"]}
    row["measured_resident_mb"] = max(row.get("measured_resident_mb", 0), *(rank["peak_resident_mb"] for rank in run["memory_by_rank"]))
    row["measured_bytes"] = round(run["communication"]["bytes"])


def predict(options, machine, row):
    plan, fault = result(options.binary, "plan", f"{row['words']} --threads 1 --device-profile {machine.profile(plan_cases.ranks(row['words']))}")
    if fault is not None:
        row["failed"] = fault
        return
    plan = plan["rows"][0]
    row |= {"predicted_mb": plan["peak_memory_mb"], "predicted_resident_mb": plan["peak_resident_mb"], "heap_mb": plan["heap_memory_mb"],
            "predicted_bytes": plan["communication"]["bytes"], "owner": plan["peak_owner"]["words"]}


def measure_memory(options, machine, row):
    """Plans are made anew, runs are not."""
    predict(options, machine, row)
    while "failed" not in row and (not row.get("runs_mb") or (abs(plan_page.error(row, "mb")) > 0.005 and len(row["runs_mb"]) < REPEATS)):
        run_once(options.binary, row)
    return row


def measure_times(options, machine, cases, known):
    """Round by round, so that what changes on the machine meanwhile is seen as the error of repeating."""
    rows = {words: known.get(words) or {"family": family, "words": words, "runs_ms": []} for family, words in cases}
    for turn in range(2):
        for words, row in rows.items():
            ranks = plan_cases.ranks(words)
            threads = machine.threads(ranks)
            if "failed" in row or len(row["runs_ms"]) > turn:
                continue
            plan, fault = result(options.binary, "plan", f"{words} --threads {threads} --device-profile {machine.profile(ranks)}")
            run, fault = result(options.binary, "bench", f"{words} --num-iter 3 --threads {threads}") if fault is None else (None, fault)
            if fault is not None:
                row["failed"] = fault
                continue
            row["runs_ms"].append(run["avg_time_ms"])
            row |= {"threads": threads, "predicted_ms": plan["rows"][0]["avg_time_ms"], "measured_ms": sum(row["runs_ms"]) / len(row["runs_ms"])}
            print(f"{100 * plan_page.error(row, 'ms'):+.1f} %", [round(one) for one in row["runs_ms"]], words, flush=True)
            yield list(rows.values())


def write(options, memory, times):
    (options.output / "README.md").write_text(plan_page.page(memory, times))
    if memory:
        plan_page.picture(memory, [("tensors", "mb"), ("process", "resident_mb")], "MiB", options.output / "memory.png")
    if times:
        plan_page.picture([row for row in times if row.get("runs_ms")], [("step", "ms")], "ms", options.output / "time.png")
    if memory and options.output.resolve() == PUBLISHED.resolve():
        HEADER.write_text(plan_page.header_of(memory))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/shade")
    parser.add_argument("--output", default="docs/results/planning", type=pathlib.Path)
    parser.add_argument("--profiles", default="build/plan_profiles", type=pathlib.Path)
    parser.add_argument("--only", default="", help="rows whose words contain this")
    parser.add_argument("--first", type=int, help="only the first N rows")
    parser.add_argument("--times", action="store_true", help="time of a step instead of memory")
    parser.add_argument("--calibrate", type=float, default=40, help="seconds that a device profile is measured for")
    parser.add_argument("--page", action="store_true", help="measure nothing")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    files = {True: options.output / "times.json", False: options.output / "rows.json"}
    rows = {kind: json.loads(file.read_text()) if file.exists() else [] for kind, file in files.items()}
    known = {row["words"]: row for row in rows[options.times]}
    cases = [case for case in (plan_cases.time_cases() if options.times else plan_cases.memory_cases()) if options.only in case[1]][:options.first]
    if options.times and not options.page:
        for rows[True] in measure_times(options, Machine(options), cases, known):
            files[True].write_text(json.dumps(rows[True], indent=1) + "\n")
    elif not options.page:
        machine = Machine(options, threads=1)
        rows[False] = []
        for family, words in cases:
            row = measure_memory(options, machine, known.get(words) or {"family": family, "words": words})
            rows[False].append(row)
            print(row.get("failed") or f"{100 * plan_page.error(row, 'mb'):+.3f} % {100 * plan_page.error(row, 'resident_mb'):+.1f} %", words,
                  "" if row.get("predicted_bytes") == row.get("measured_bytes") else "TRAFFIC DIFFERS", flush=True)
            files[False].write_text(json.dumps(rows[False], indent=1) + "\n")
    write(options, rows[False], rows[True])
    return 0 if all("failed" not in row for kind in rows for row in rows[kind]) else 1


if __name__ == "__main__":
    sys.exit(main())
