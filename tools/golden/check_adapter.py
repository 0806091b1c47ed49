#!/usr/bin/env python
"""Loads adapters that Shade wrote in PEFT, on the model they were trained from, and compares with the merged model.

usage: check_adapter.py BASE ADAPTER MERGED       folders: a language model, what was trained from it, and both in one

The logits of a classifier for some ids must agree within 1e-5.
"""

import sys
import warnings

import golden  # first: it sets what torch reads when it is loaded

import torch
from peft import PeftModel
from transformers import AutoModelForSequenceClassification
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    base_folder, adapter_folder, merged_folder = sys.argv[1:]
    merged = AutoModelForSequenceClassification.from_pretrained(merged_folder).eval()
    base = AutoModelForSequenceClassification.from_pretrained(base_folder, num_labels=merged.config.num_labels)
    adapted = PeftModel.from_pretrained(base, adapter_folder).eval()
    ids = golden.integers(golden.generator("adapter"), 0, 256, (4, 12))
    with torch.no_grad():
        found, expected = adapted(ids).logits, merged(ids).logits
        with adapted.disable_adapter():
            without = adapted(ids).logits
    if without.allclose(expected, rtol=1e-3):
        raise SystemExit("the adapters change nothing")
    print(f"PEFT agrees within {golden.close('logits', found.double(), expected.double(), 1e-5):.0e}")


if __name__ == "__main__":
    main()
