#!/usr/bin/env python
"""Loads folders that Shade wrote from the goldens' checkpoints in transformers, and compares them with the originals.

usage: check_written.py WRITTEN       WRITTEN/<golden>/<any name> is a model's folder, with Shade's own logits for the
                                      golden's inputs in shade_logits.safetensors

A folder must load without a missing or unexpected weight, in its own type, and give the logits that transformers computes
from the original: the same bits. Shade's logits, from other kernels, must agree within 1e-5 (bf16: 2 %). Of a folder
whose name begins with "lora" only the latter is asked: adapters that the original doesn't have were added to its weights.
"""

import pathlib
import sys
import warnings

import golden  # first: it sets what torch reads when it is loaded

import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")

SAID_ALIKE = ("model_type", "tie_word_embeddings", "num_labels", "bos_token_id", "eos_token_id", "pad_token_id",
              "rope_parameters", "max_position_embeddings")
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def load(folder, **options):
    classifier = "SequenceClassification" in AutoConfig.from_pretrained(folder).architectures[0]
    kind = AutoModelForSequenceClassification if classifier else AutoModelForCausalLM
    model, report = kind.from_pretrained(folder, output_loading_info=True, **options)
    for fault in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report[fault]:
            raise SystemExit(f"{folder}: {fault.replace('_', ' ')}: {sorted(report[fault])}")
    return model.eval()


def check(original, written):
    model = load(written)  # in the type that its config.json says
    theirs = load(original, dtype=model.dtype)
    for key in SAID_ALIKE:
        found, expected = getattr(model.config, key), getattr(theirs.config, key)
        if found != expected:
            raise SystemExit(f"{written}: {key} is {found}, in {original} it is {expected}")
    ours = load_file(written / "shade_logits.safetensors")["logits"]
    if ours.dtype != model.dtype:
        raise SystemExit(f"{written}: written in {ours.dtype}, but transformers makes it {model.dtype}")

    case = load_file(original / "case.safetensors")
    ids, mask = case["input_ids"], case["attention_mask"]
    with torch.no_grad():
        found, expected = (m(ids, attention_mask=mask).logits for m in (model, theirs))
    if written.name.startswith("lora"):
        if found.equal(expected):
            raise SystemExit(f"{written}: logits are the original's, as if there were no adapters")
    elif not found.equal(expected):
        raise SystemExit(f"{written}: logits differ from the original's by {(found - expected).abs().max().item():g}")
    real = mask.bool() if found.dim() == 3 else slice(None)  # padding positions compute something nobody uses
    return golden.close(f"{written}: Shade's logits", ours[real].double(), found[real].double(), TOLERANCES[model.dtype])


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    goldens = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
    folders = sorted(path.parent for path in pathlib.Path(sys.argv[1]).glob("*/*/config.json"))
    for folder in folders:
        distance = check(goldens / folder.parent.name, folder)
        print(f"{folder.parent.name:28} {folder.name:20} Shade within {distance:.0e}")
    print(f"{len(folders)} folders load with identical logits")


if __name__ == "__main__":
    main()
