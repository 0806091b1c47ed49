#!/usr/bin/env python3
"""Predicted against measured: `shade plan` and `shade bench` of the same words, over families, strategies, methods,
types, adapters, checkpointing and ranks. Writes a table and its summary in Markdown, and every row as JSON.

  bench/plan_error.py --output docs/results/planning
  bench/plan_error.py --only "ranks 2" --output results      # rows whose words contain it

Runs that are in rows.json already are not made again.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

METHODS = ["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto"]
SMALL = "--hidden-dim 256 --num-layers 4 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size 4096"
FAMILIES = {
    "llama": f"--model llama3-8b --task lm --seq 256 --batch-size 2 {SMALL}",
    "llama classify": f"--model llama3-8b --task classify --seq 512 --batch-size 2 {SMALL}",
    "qwen2": f"--model qwen2-1.5b --task lm --seq 256 --batch-size 3 {SMALL}",
    "dit": "--model dit-s --hidden-dim 192 --num-layers 3 --num-heads 3 --batch-size 4",
    "linear": "--model linear --hidden-dim 512 --num-layers 6 --batch-size 16",
}


def cases():
    """Every row: a name, and the words that plan and bench share."""
    for family, words in FAMILIES.items():
        for dp in METHODS:
            yield family, f"{words} --dp {dp} --ranks 1"
    for family, words in FAMILIES.items():
        for shard in ["ddp", "zero2", "zero3"]:
            for dp in ["none", "flash", "auto"]:
                yield family, f"{words} --dp {dp} --ranks 2 --shard {shard}"
    for family in ["llama", "qwen2", "dit"]:
        for dp in ["none", "ghost", "flash_bookkeeping", "auto"]:
            yield family, f"{FAMILIES[family]} --dp {dp} --ranks 1 --dtype bf16"
        for dp in ["none", "auto"]:
            yield family, f"{FAMILIES[family]} --dp {dp} --ranks 1 --checkpointing block"
            yield family, f"{FAMILIES[family]} --dp {dp} --ranks 2 --shard zero3 --dtype bf16"
    for family in ["llama", "llama classify", "qwen2"]:
        for dp in ["none", "flash", "auto"]:
            yield family, f"{FAMILIES[family]} --dp {dp} --ranks 1 --lora-rank 8"
    for dp in ["none", "flash", "auto"]:
        yield "llama", f"{FAMILIES['llama']} --dp {dp} --ranks 4 --shard hsdp --replicate 2"
        yield "llama", f"{FAMILIES['llama']} --dp {dp} --ranks 2 --shard zero3 --grad-accum 3"
        yield "llama", f"{FAMILIES['llama']} --dp {dp} --ranks 4 --shard zero3 --checkpointing block"


def result(binary, verb, words):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "result.json"
        run = subprocess.run([binary, verb, *words.split(), "--json", str(file)], capture_output=True, text=True)
        if run.returncode != 0:
            return None, (run.stderr.strip().splitlines() or ["no reason given"])[-1]
        return json.loads(file.read_text()), None


def measure(binary, family, words):
    row = {"family": family, "words": words}
    planned, fault = result(binary, "plan", f"{words} --threads 1")
    if fault is None:
        measured, fault = result(binary, "bench", f"{words} --num-iter 1 --threads 1")
    if fault is not None:
        return row | {"failed": fault}
    plan = planned["rows"][0]
    return row | {
        "predicted_mb": plan["peak_memory_mb"],
        "measured_mb": measured["peak_memory_mb"],
        "predicted_bytes": plan["communication"]["bytes"],
        "measured_bytes": round(measured["communication"]["bytes"]),
        "owner": plan["peak_owner"]["words"],
        "measured_owner": measured["peak_owner"]["words"],
    }


def error(row):
    return row["predicted_mb"] / row["measured_mb"] - 1


def page(rows):
    good = [row for row in rows if "failed" not in row]
    errors = sorted(abs(error(row)) for row in good)
    exact = sum(row["predicted_bytes"] == row["measured_bytes"] for row in good)
    share = lambda limit: 100 * sum(e <= limit for e in errors) / max(1, len(errors))
    at = lambda q: 100 * errors[min(len(errors) - 1, math.ceil(q * len(errors)) - 1)]
    lines = ["# Predicted against measured", "",
             "Peak tensor memory of a rank and bytes sent per step: `shade plan` compared with `shade bench` of the same words, on this machine's CPU. "
             "Made by `bench/plan_error.py`; all rows with their words are in [rows.json](rows.json).", "",
             "| runs | within 1 % | within 3 % | median error | 95 % of runs | largest | traffic exact |", "|---|---|---|---|---|---|---|",
             f"| {len(good)} | {share(0.01):.0f} % | {share(0.03):.0f} % | {at(0.5):.2f} % | {at(0.95):.2f} % | {100 * errors[-1]:.2f} % | {exact} of {len(good)} |", "",
             "| family | settings | predicted MiB | measured MiB | error | sent, predicted | sent, measured |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        settings = row["words"].replace(FAMILIES[row["family"]], "").strip()
        if "failed" in row:
            lines.append(f"| {row['family']} | {settings} | failed: {row['failed']} | | | | |")
            continue
        lines.append(f"| {row['family']} | {settings} | {row['predicted_mb']:.2f} | {row['measured_mb']:.2f} | {100 * error(row):+.2f} % "
                     f"| {row['predicted_bytes']:,} | {row['measured_bytes']:,} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/shade")
    parser.add_argument("--output", default="docs/results/planning", type=pathlib.Path)
    parser.add_argument("--only", default="", help="rows whose words contain this")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / "rows.json"
    known = {row["words"]: row for row in (json.loads(file.read_text()) if file.exists() else [])}
    rows = []
    for family, words in cases():
        if options.only not in words:
            continue
        row = known.get(words) or measure(options.binary, family, words)
        rows.append(row)
        print(words, row.get("failed") or f"{100 * error(row):+.3f} %", row.get("measured_mb"),
              "" if row.get("predicted_bytes") == row.get("measured_bytes") else "TRAFFIC DIFFERS", flush=True)
        file.write_text(json.dumps(rows, indent=1) + "\n")
        (options.output / "README.md").write_text(page(rows))
    return 0 if all("failed" not in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
