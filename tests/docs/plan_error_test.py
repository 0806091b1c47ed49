#!/usr/bin/env python3
"""The error that `shade plan` states of itself is that of the published runs.

    plan_error_test.py SOURCE_ROOT
"""
import json
import pathlib
import sys


def main(root):
    sys.path.insert(0, str(root / "bench"))
    import plan_page
    rows = json.loads((root / "docs/results/planning/rows.json").read_text())
    stated = (root / "shade/plan/measured_error.h").read_text()
    if stated != plan_page.header_of(rows):
        sys.exit("shade/plan/measured_error.h is not that of docs/results/planning/rows.json; run bench/plan_error.py --page")
    wrong = [dict(row) for row in rows]
    wrong[0]["predicted_mb"] *= 1.5
    if plan_page.header_of(wrong) == stated:
        sys.exit("a row with an error of 50 % changes nothing in the stated figures")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
