#!/usr/bin/env python3
"""Plans of models at full size against one run of each on this machine: memory, process, traffic and time of a step.

  bench/plan_full_size.py --profiles build/plan_profiles --output docs/results/planning     # about 20 minutes, 20 GB

The plan of a row is written before its run. Profiles are those of bench/plan_error.py --times (`shade calibrate` with the
same ranks and threads). Rows that are in full_size.json already are not run again.
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import plan_cases
import plan_error
import plan_page

LLAMA = "--model llama3-8b --task classify --lora-rank 16 --dtype bf16 --checkpointing block --ranks 2 --shard zero3 --dp auto --batch-size 1"
CASES = {
    "Llama-3 8B, LoRA 16, T = 128": f"{LLAMA} --seq-length 128",
    "Llama-3 8B, LoRA 16, T = 1024": f"{LLAMA} --seq-length 1024",
    "DiT-L, all weights": "--model dit-l --dtype bf16 --ranks 1 --dp auto --batch-size 2",
    "DiT-L, all weights, 2 ranks": "--model dit-l --dtype bf16 --ranks 2 --shard zero3 --dp auto --batch-size 2",
    "Qwen2 1.5B, all weights, SGD, T = 512": "--model qwen2-1.5b --task lm --dtype bf16 --optimizer sgd --checkpointing block --ranks 2 --shard zero3 --dp none "
                                             "--batch-size 1 --seq-length 512",
}
FIGURES = [("mb", "peak tensors", 1024, "GiB"), ("resident_mb", "peak process", 1024, "GiB"), ("bytes", "sent per step", 2**30, "GiB"), ("ms", "step", 1000, "s")]


def predicted(plan):
    return {"predicted_mb": plan["peak_memory_mb"], "predicted_resident_mb": plan["peak_resident_mb"], "predicted_bytes": plan["communication"]["bytes"],
            "predicted_ms": plan["avg_time_ms"]}


def measured(run):
    return {"measured_mb": run["peak_memory_mb"], "measured_resident_mb": max(rank["peak_resident_mb"] for rank in run["memory_by_rank"]),
            "measured_bytes": round(run["communication"]["bytes"]), "measured_ms": run["avg_time_ms"]}


def table(rows):
    lines = ["# Plans at full size", "",
             "Predicted before the run, then run once: one step after one to warm up, one thread per rank (two with one rank). Made by `bench/plan_full_size.py`; all words are in "
             "[full_size.json](full_size.json). Memory is that of the rank with the most.", "",
             "| | " + " | ".join(f"{name} ({unit}), predicted | measured | error" for _, name, _, unit in FIGURES) + " |", "|---" * (1 + 3 * len(FIGURES)) + "|"]
    for row in rows:
        cells = [row["name"]]
        for key, _, scale, _ in FIGURES:
            if "failed" in row:
                cells += ["", row["failed"], ""]
                continue
            was, is_now = row[f"predicted_{key}"] / scale, row[f"measured_{key}"] / scale
            cells += [f"{was:.2f}", f"{is_now:.2f}", f"{100 * plan_page.error(row, key):+.1f} %" if is_now else "-"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/shade")
    parser.add_argument("--output", default="docs/results/planning", type=pathlib.Path)
    parser.add_argument("--profiles", default="build/plan_profiles", type=pathlib.Path)
    parser.add_argument("--calibrate", type=float, default=40, help="seconds that a device profile is measured for")
    options = parser.parse_args()
    file, machine = options.output / "full_size.json", plan_error.Machine(options)
    rows = json.loads(file.read_text()) if file.exists() else []
    for name, words in CASES.items():
        if any(row["name"] == name and "measured_ms" in row for row in rows):
            continue
        ranks = plan_cases.ranks(words)
        own = f"{words} --threads {machine.threads(ranks)}"
        plan, fault = plan_error.result(options.binary, "plan", f"{own} --device-profile {machine.profile(ranks)}")
        row = {"name": name, "words": own, **({"failed": fault} if fault else predicted(plan["rows"][0]))}
        rows.append(row)
        file.write_text(json.dumps(rows, indent=1) + "\n")
        run, fault = plan_error.result(options.binary, "bench", f"{own} --warmup-iter 1 --num-iter 1")
        row |= {"failed": fault} if fault else measured(run)
        file.write_text(json.dumps(rows, indent=1) + "\n")
        print(json.dumps(row), flush=True)
    (options.output / "full_size.md").write_text(table(rows))


if __name__ == "__main__":
    main()
