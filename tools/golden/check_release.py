#!/usr/bin/env python
"""Loads released folders in transformers' pipelines, as a user would, and compares what they say with Shade.

usage: check_release.py EXPECTED.json      a list of {"folder", "task", "texts", "expected"}: for each text the label that
                                           "text-classification" names, or the text that "text-generation" goes on with
"""

import json
import pathlib
import sys
import warnings

import golden  # noqa: F401  first: it sets what torch reads when it is loaded

import torch
from transformers import pipeline
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")

TOKENS = 8


def found(case):
    pipe = pipeline(case["task"], model=case["folder"], dtype=torch.float32)
    if case["task"] == "text-classification":
        return [answer["label"] for answer in pipe(case["texts"])]
    return [pipe(text, max_new_tokens=TOKENS, do_sample=False, return_full_text=False)[0]["generated_text"]
            for text in case["texts"]]


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    cases = json.loads(pathlib.Path(sys.argv[1]).read_text())
    for case in cases:
        with torch.no_grad():
            answers = found(case)
        if answers != case["expected"]:
            raise SystemExit(f"{case['task']}: {answers}, and {case['expected']} by Shade")
    print(f"{len(cases)} released folders load in pipelines")


if __name__ == "__main__":
    main()
