#!/usr/bin/env python3
"""docs/results/planning/published.json has what the program predicts: two cheap rows are planned again.

    published_test.py SOURCE_ROOT SHADE
"""
import json
import pathlib
import sys

CHEAP = ["llm-foundry mpt-1b 2048 8 h100-80g 14 1 none zero3", "torchtitan-a100 llama2-13b 4096 64 a100-80g 2 1 none zero3"]
ALLOWED = 0.01  # of a figure


def main(root, shade):
    sys.path.insert(0, str(root / "bench"))
    import published

    data = published.tomllib.loads(published.DATA.read_text())
    stored = {published.name_of(row): row for row in
              json.loads((root / "docs/results/planning/published.json").read_text())["rows"]}
    missing = [name for name in map(published.name_of, published.points(data)) if name not in stored]
    faults = [f"{name}: not in published.json" for name in missing]
    profiles = published.Profiles(shade)
    for point in published.points(data):
        name = published.name_of(point)
        if name not in CHEAP or name in missing:
            continue
        now, then = published.predict(shade, data, point, profiles)["ends"][0], stored[name]["ends"][0]
        for key in ("tokens", "tensors_gib", "reserved_gib"):
            print(f"{name}: {key} {now[key]:.2f}, stored {then[key]:.2f}")
            if abs(now[key] / then[key] - 1) > ALLOWED:
                faults.append(f"{name}: {key} is {now[key]:.2f} now, {then[key]:.2f} in published.json")
    if faults:
        sys.exit("\n".join(faults) + "\nrun bench/published.py SHADE --output docs/results/planning")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2])
