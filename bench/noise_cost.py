#!/usr/bin/env python3
"""Cost of the noise in one build compared with another, interleaved, in fresh processes, on one thread.

usage: bench/noise_cost.py OLD NEW [--pairs 15]     two programs noise_cost (cmake --build build/release --target noise_cost)

Prints each pair's times per number and the ratio NEW / OLD: geometric mean over the pairs with its 95 % interval.
"""
import argparse
import math
import statistics
import subprocess

STUDENT = {14: 2.145, 19: 2.093, 24: 2.064, 29: 2.045}  # 97.5 % quantiles by degrees of freedom


def time(program):
    return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=15, choices=[n + 1 for n in STUDENT])
    arguments = parser.parse_args()
    old, new = [], []
    for pair in range(arguments.pairs):
        for program, times in ((arguments.old, old), (arguments.new, new))[:: 1 if pair % 2 == 0 else -1]:
            times.append(time(program))
        print(f"pair {pair + 1}: {old[-1]:.3f} and {new[-1]:.3f} ns per number", flush=True)
    logs = [math.log(n / o) for o, n in zip(old, new)]
    mean, spread = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs)) * STUDENT[len(logs) - 1]
    print(f"median {statistics.median(old):.3f} and {statistics.median(new):.3f} ns; ratio {math.exp(mean):.3f}, "
          f"95 % interval {math.exp(mean - spread):.3f} to {math.exp(mean + spread):.3f}, {len(logs)} pairs")


if __name__ == "__main__":
    main()
