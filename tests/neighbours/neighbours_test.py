#!/usr/bin/env python3
"""Data sets that differ in one unit of privacy, each trained by the program: norm(sum(D + x) - sum(D)) <= C.

All records in every batch, no noise, one step of plain descent, and a learning rate over the divisor that is a power of
two, r: the exported weights are W0 - r S, and the difference of two of them tells that of the clipped sums S. The tolerance
is what fp32 cannot hold, and nothing else: in each of the two runs, for each weight, half a unit in the last place of S and
half of one of the exported weight. With r C = 2^21 to 2^22 the update exceeds W0 by far: the second is as small as the first.

  neighbours_test.py SHADE [--all] [--family NAME ...] [--except NAME ...] [--jobs 2] [--work FOLDER] [--verbose]

Without --all the pairs for every change. Pairs are listed in pairs.py; in those of the family `two units` the data sets
differ in two units, which must be noticed.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
import files  # noqa: E402
import models  # noqa: E402
import pairs  # noqa: E402

DIVISOR = 2
COMMON = ("--sigma 0 --sample-rate 1 --noise-seed 3 --optimizer sgd --weight-decay 0 --steps 1 --export-dtype fp32 "
          f"--batch-size {DIVISOR} --threads 1 --peak-gflops 1 --log-level error").split()
USELESS = 1e-3  # of C: a pair with a larger tolerance shows nothing
TRAINED = 0.9   # of C: the largest difference of a family, otherwise its units were not trained on


class Misconfigured(Exception):
    pass


def half_unit(value):
    """Half a unit in the last place of fp32."""
    return 2.0**((max(math.frexp(value)[1], -125) if value else -125) - 25)


def scale_of(clip):
    """Learning rate over the divisor."""
    return 2.0**(22 - math.frexp(clip)[1])


class Program:
    """Runs of `shade train`, each made once."""

    def __init__(self, shade, work):
        self.shade, self.work = shade, work
        self.made, self.lock = {}, threading.Lock()

    def once(self, key, make):
        with self.lock:
            future = self.made.get(key)
            mine = future is None
            if mine:
                future = self.made[key] = concurrent.futures.Future()
        if mine:
            try:
                future.set_result(make())
            except Exception as error:  # those that wait for it get it too
                future.set_exception(error)
        return future.result()

    def call(self, arguments):
        command = [str(self.shade), "train", *map(str, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired as error:
            raise Misconfigured(str(error)) from error
        if done.returncode != 0:
            raise Misconfigured(f"{' '.join(command)}\n{done.stdout[-500:]}{done.stderr[-1500:]}")
        if "no guarantee: no noise is added" not in done.stdout:
            raise Misconfigured(f"{' '.join(command)}: a run with --sigma 0 must say that nothing is protected")

    def model(self, name):
        """Folder of the first weights."""
        def make():
            folder = self.work / name
            arguments = [*models.MODELS[name].split(), "--from-scratch", "--synthetic", "--records", 4, "--lr", 0, "--dp", "auto", *COMMON]
            self.call([*arguments, "--output", folder / "run", "--export", folder / "model"])
            if name in models.EDITED:
                models.EDITED[name](folder / "model")
            return folder / "model"
        return self.once(name, make)

    def weights(self, pair, clip, records, moves=True):
        key = hashlib.sha256(repr((pair.model, pair.options, clip, records, moves)).encode()).hexdigest()[:16]

        def make():
            folder = self.work / key
            files.write_records(folder / "data", records)
            arguments = ["--model", self.model(pair.model), "--data-folder", folder / "data", "--max-grad-norm", repr(clip), *COMMON,
                         "--lr", scale_of(clip) * DIVISOR if moves else 0, "--output", folder / "run"]
            if "--dp" not in pair.options:
                arguments += ["--dp", "auto"]
            if pair.model != "dit":
                arguments += ["--tokenizer", "bytes"]
                if "--seq-length" not in pair.options:
                    arguments += ["--seq-length", pairs.LENGTH]
            out = folder / "out"
            arguments += ["--export-adapter" if "--lora-rank" in pair.options else "--export", out, *pair.options]
            if "--lora-rank" in pair.options:
                at = arguments.index("--export-dtype")
                del arguments[at:at + 2]
            self.call(arguments)
            found = files.read_weights(next(out.glob("*.safetensors")))
            shutil.rmtree(folder)
            return found
        return self.once(key, make)

    def first_weights(self, pair, clip):
        if "--lora-rank" in pair.options:
            return self.weights(pair, clip, pair.data, moves=False)
        folder = self.model(pair.model)
        return self.once(("first", pair.model), lambda: files.read_weights(folder / "model.safetensors"))


def fitted_clip(program, pair):
    """The clip norm with which 2^k - 1 records stay below 2^k in either weight, and 2^k records exceed it."""
    trial = math.sqrt(2.0)
    weights = program.weights(pair, trial, pair.data[:DIVISOR])
    each = max(abs(w) for w in weights["score.weight"]) / scale_of(trial) / DIVISOR
    if not 0.9 < each <= 1:
        raise Misconfigured(f"a clipped record has {each} in each of two weights; expected C / sqrt(2) less a margin")
    return trial * (1 + 0.3 / 2**pair.crosses) / each


@dataclasses.dataclass
class Compared:
    ratio: float      # of the difference to C
    tolerance: float  # in C

    def __str__(self):
        return f"the sum moved by {self.ratio:.7f} C, tolerance {self.tolerance:.1e} C"

    def fault(self, pair):
        """What is wrong, or None."""
        if self.tolerance > USELESS:
            return f"{self}: a tolerance above {USELESS} C shows nothing"
        exceeds = self.ratio > 1 + self.tolerance
        if pair.units == 1:
            return str(self) if exceeds else None
        return None if exceeds else f"{self}, by {pair.units} units: this test would not notice a larger sensitivity"


def compare(program, pair):
    clip = fitted_clip(program, pair) if pair.crosses else pair.clip
    more = list(pair.data)
    for at, record in sorted(pair.added, key=lambda a: a[0], reverse=True):
        more.insert(at, record)
    first = program.first_weights(pair, clip)
    without, with_it = program.weights(pair, clip, pair.data), program.weights(pair, clip, tuple(more))
    scale, squares, tolerances = scale_of(clip), 0.0, 0.0
    for name, begin in first.items():
        for w0, a, b in zip(begin, without[name], with_it[name], strict=True):
            squares += (a - b)**2
            tolerances += sum(half_unit((w0 - w) / scale) + half_unit(w) / scale for w in (a, b))**2
    if not math.isfinite(squares):
        raise Misconfigured("the exported weights are not finite")
    return Compared(math.sqrt(squares) / scale / clip, math.sqrt(tolerances) / clip)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shade", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--family", action="append", metavar="NAME")
    parser.add_argument("--except", action="append", metavar="NAME", dest="left_out", default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    chosen = [p for p in pairs.all_pairs() if (given.all or p.in_ci) and (not given.family or p.family in given.family)
              and p.family not in given.left_out]
    begin, failed, families = time.monotonic(), 0, collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="neighbours.", dir=given.work) as work, \
            concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        program = Program(given.shade.resolve(), pathlib.Path(work))
        for pair, future in [(p, pool.submit(compare, program, p)) for p in chosen]:
            try:
                found = future.result()
                families[pair.family].append(found)
                fault = found.fault(pair)
            except Misconfigured as error:
                fault = str(error)
            failed += fault is not None
            if fault or given.verbose:
                print(f"{'FAIL' if fault else 'pass'}  {pair.family}: {pair.name}: {fault or found}", flush=True)
    print(f"\n{'family':14}{'pairs':>6}{'largest / C':>14}{'tolerance up to':>18}")
    for family, members in families.items():
        largest, tolerance = max(f.ratio for f in members), max(f.tolerance for f in members)
        print(f"{family:14}{len(members):6}{largest:14.7f}{tolerance:18.1e}")
        if largest < TRAINED:
            failed += 1
            print(f"FAIL  {family}: no unit moved the sum by {TRAINED} C; were they trained on?")
    print(f"{len(chosen) - failed} of {len(chosen)} pairs as expected in {time.monotonic() - begin:.0f} s")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
