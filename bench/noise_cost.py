#!/usr/bin/env python3
"""Cost of the noise in one build compared with another, interleaved, in fresh processes, on one thread.

usage: bench/noise_cost.py OLD NEW [--pairs 60] [--half-width 0.02]

OLD and NEW are programs noise_cost (cmake --build build/release --target noise_cost). Pairs are measured until the
half-width of the interval is below --half-width, at least 5 and at most --pairs. Prints each pair's times per number and
the ratio NEW / OLD: geometric mean over the pairs with its 95 % interval (bench/commits.py).
"""
import argparse
import statistics
import subprocess

from commits import FEWEST, ratio


def time(program):
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=60, help="at most")
    parser.add_argument("--half-width", type=float, default=0.02)
    arguments = parser.parse_args()
    old, new = [], []
    for pair in range(arguments.pairs):
        for program, times in ((arguments.old, old), (arguments.new, new))[:: 1 if pair % 2 == 0 else -1]:
            times.append(time(program))
        print(f"pair {pair + 1}: {old[-1]:.3f} and {new[-1]:.3f} ns per number", flush=True)
        mean, low, high = ratio(old, new)
        if len(old) >= FEWEST and high - low < 2 * arguments.half_width:
            break
    print(f"median {statistics.median(old):.3f} and {statistics.median(new):.3f} ns; ratio {mean:.3f}, "
          f"95 % interval {low:.3f} to {high:.3f}, {len(old)} pairs")


if __name__ == "__main__":
    main()
