#!/usr/bin/env python3
"""Compares a row with itself again and again while another process keeps a core busy, and counts how often
`shade compare` calls it different. The two rows differ in --seed, which changes no amount of work.

  bench/same_row.py --shade build/release/bin/shade --comparisons 20 --time-budget 60s -- --model llama-nano --dp ghost
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile


def burn(core):
    """A process that never sleeps, on one core; in bursts, which are harder than a steady load."""
    code = f"import os,time,random\nos.sched_setaffinity(0,{{{core}}})\nwhile True:\n" \
           " end=time.time()+random.expovariate(0.5)\n while time.time()<end: pass\n time.sleep(random.expovariate(2))\n"
    return subprocess.Popen([sys.executable, "-c", code])


def compare(shade, budget, options, folder):
    words = [shade, "compare", "--seed", "1,2", "--time-budget", budget, "--output-dir", folder, *options]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    results = [json.load(open(os.path.join(folder, name))) for name in os.listdir(folder) if name.endswith("_result.json")]
    return next(result for result in results if "ratio" in result)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shade", default="build/release/bin/shade", help="the program")
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--time-budget", default="60s", help="of each comparison")
    parser.add_argument("--core", type=int, default=1, help="that is kept busy; -1: none")
    parser.add_argument("options", nargs="*", help="of shade compare")
    given = parser.parse_args()
    options = given.options or ["--model", "llama-nano", "--dp", "ghost", "--num-iter", "3"]
    busy = burn(given.core) if given.core >= 0 else None
    called = 0
    try:
        for number in range(given.comparisons):
            with tempfile.TemporaryDirectory() as folder:
                result = compare(given.shade, given.time_budget, options, os.path.join(folder, "run"))
            ratio = result["ratio"]
            called += ratio["verdict"] in ("slower", "faster")
            print(f"{number + 1:3}  {ratio['verdict']:20} {ratio['value']:.3f} {ratio['interval']} "
                  f"{ratio['runs']} runs, {100 * result['load']['others']:.0f} % load by others", flush=True)
    finally:
        if busy:
            busy.kill()
    print(f"{called} of {given.comparisons} comparisons of a row with itself were called different")
    return 0 if called <= max(1, given.comparisons // 20) else 1


if __name__ == "__main__":
    sys.exit(main())
