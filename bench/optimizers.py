#!/usr/bin/env python3
"""Optimizers of private runs on a real task: recipes/sections_private.toml with AdamW, an average of its weights, and
DP-AdamBC, at the same epsilon. Prints accuracy and loss on test records per setting, over seeds.

usage: bench/optimizers.py OUT [SETTING...] [--seeds 1,2,3] [--shade PATH] [--core N] [--table]

  OUT      a folder: OUT/SETTING_SEED.json has the scores of a run; runs with scores are not repeated

Needs tools/debian_sections runs/sections and shade train recipes/sections_base.toml.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETTINGS = {
    "adamw": [],
    "adamw_ema_0.9": ["--ema", "0.9"],
    "adambc_lr_5e-3": ["--optimizer", "adambc"],
    "adambc_lr_2e-3": ["--optimizer", "adambc", "--lr", "2e-3"],
    "adambc_lr_1e-3": ["--optimizer", "adambc", "--lr", "1e-3"],
    "adambc_lr_5e-3_floor_0.3": ["--optimizer", "adambc", "--noise-floor", "0.3"],
    "adambc_lr_2e-3_floor_0.3": ["--optimizer", "adambc", "--lr", "2e-3", "--noise-floor", "0.3"],
}


def make(setting, seed, shade, out):
    result, log, run = out / f"{setting}_{seed}.json", out / f"{setting}_{seed}.log", out / "run"
    if result.exists():
        return
    shutil.rmtree(run, ignore_errors=True)
    with log.open("w") as into:
        for command in (["train", "recipes/sections_private.toml", "--output", str(run), "--export", str(run / "model"), "--seed", str(seed),
                         *SETTINGS[setting]],
                        ["eval", str(run), "--data-folder", "runs/sections/test", "--threads", "1", "--json", str(out / "scores.json")]):
            if subprocess.run([*shade, *command], cwd=ROOT, stdout=into, stderr=subprocess.STDOUT).returncode != 0:
                sys.exit(f"{' '.join(command)} failed; see {log}")
    scores = json.loads((out / "scores.json").read_text())
    result.write_text(json.dumps(scores.get("not_private", scores), indent=1) + "\n")


def table(out):
    print("| setting | accuracy of seeds, % | mean | loss, mean |\n|---|---|---|---|")
    for setting in SETTINGS:
        runs = [json.loads(file.read_text()) for file in sorted(out.glob(f"{setting}_[0-9].json"))]
        if runs:
            accuracy = [100 * run["accuracy"] for run in runs]
            print(f"| {setting} | {', '.join(f'{a:.1f}' for a in accuracy)} | {statistics.mean(accuracy):.1f} | {statistics.mean(run['loss'] for run in runs):.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("settings", nargs="*", metavar="SETTING")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--shade", default=str(ROOT / "build/release/bin/shade"))
    parser.add_argument("--core", type=int)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if unknown := [name for name in options.settings if name not in SETTINGS]:
        parser.error(f"no setting {', '.join(unknown)}; expected {', '.join(SETTINGS)}")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if not options.table:
        shade = ([] if options.core is None else ["taskset", "-c", str(options.core)]) + [options.shade]
        for seed in options.seeds.split(","):
            for setting in options.settings or SETTINGS:
                make(setting, int(seed), shade, out)
    table(out)


if __name__ == "__main__":
    main()
