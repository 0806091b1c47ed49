#!/usr/bin/env python3
"""Is the advice right? For memory limits chosen at random, what `shade plan --advise` recommends is run and must stay
within the limit; of what it rejected by more than 5 % of the limit one setting, chosen at random, is run and must not.

  bench/advice.py --output docs/results/planning/advice.md
"""
import argparse
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import plan_error

SIZES = "--hidden-dim 128 --num-layers 3 --num-heads 4 --num-kv-heads 2 --ffn-dim 384 --vocab-size 1024"
# With the smallest and the largest limit in MiB: between what the leanest and the largest settings need.
FAMILIES = {
    "llama": (f"--model llama3-8b --task lm --seq 128 {SIZES}", 13, 55),
    "qwen2": (f"--model qwen2-1.5b --task lm --seq 128 {SIZES}", 13, 55),
    "dit": ("--model dit-s --hidden-dim 96 --num-layers 2 --num-heads 3", 20, 200),
    "linear": ("--model linear --hidden-dim 256 --num-layers 4", 4.5, 12),
}
BATCHES = "1,4,16"  # all are tried, so that every limit has settings beyond it
MARGIN = 1.05
SEED = 1


def limits(count, draw):
    for index in range(count):
        family = list(FAMILIES)[index % len(FAMILIES)]
        words, least, most = FAMILIES[family]
        yield family, words, 1 + index // len(FAMILIES) % 2, round(draw.uniform(least, most), 1)


def words_of(row):
    settings = [f"--{name} {value}" for name, value in row["settings"].items()]
    return " ".join([*settings, f"--batch-size {row['batch_size']}"])


def peak(binary, words):
    run, fault = plan_error.result(binary, "bench", f"{words} --num-iter 1 --threads 1")
    if fault is not None:
        raise SystemExit(f"shade bench {words}: {fault}")
    return run["peak_memory_mb"]


def check(binary, family, words, ranks, limit, draw):
    words = f"{words} --ranks {ranks}"
    advice, fault = plan_error.result(binary, "plan", f"{words} --dp any --batch-size {BATCHES} --threads 1 --advise --memory-limit {limit}MiB")
    if fault is not None:
        raise SystemExit(f"shade plan {words} --advise --memory-limit {limit}MiB: {fault}")
    best = " ".join(advice["recommended"]["arguments"])
    too_large = [row for row in advice["rows"] if row.get("peak_memory_mb", 0) > MARGIN * limit]
    out = {"family": family, "ranks": ranks, "limit": limit, "tried": len(advice["rows"]), "best": best, "best_mb": peak(binary, f"{words} {best}")}
    if too_large:
        row = draw.choice(too_large)
        out |= {"rejected": words_of(row), "predicted_mb": row["peak_memory_mb"], "rejected_mb": peak(binary, f"{words} {words_of(row)}")}
    out["right"] = out["best_mb"] <= limit and out.get("rejected_mb", limit + 1) > limit
    return out


def table(rows):
    lines = ["# Advice against runs", "",
             "Memory limits chosen at random: what `shade plan --dp any --advise` recommends was run, and one setting, chosen at random, of those that it rejected because "
             "they need more than 1.05 times the limit. Made by `bench/advice.py`; memory is the peak of tensors per rank in MiB.", "",
             f"{sum(row['right'] for row in rows)} of {len(rows)} limits: the recommended settings stayed within the limit and the rejected ones did not.", "",
             "| model | ranks | limit | settings tried | recommended | measured | rejected | predicted | measured | right |", "|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        rejected = f"{row['rejected']} | {row['predicted_mb']:.1f} | {row['rejected_mb']:.1f}" if "rejected" in row else "none | | "
        lines.append(f"| {row['family']} | {row['ranks']} | {row['limit']} | {row['tried']} | {row['best']} | {row['best_mb']:.1f} | {rejected} | {'yes' if row['right'] else 'no'} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/shade")
    parser.add_argument("--limits", type=int, default=12)
    parser.add_argument("--output", type=pathlib.Path, help="Markdown file [standard output]")
    options = parser.parse_args()
    draw = random.Random(SEED)
    rows = []
    for family, words, ranks, limit in limits(options.limits, draw):
        rows.append(check(options.binary, family, words, ranks, limit, draw))
        print(rows[-1], file=sys.stderr, flush=True)
    if options.output:
        options.output.write_text(table(rows))
    else:
        print(table(rows))
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
