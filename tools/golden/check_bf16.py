#!/usr/bin/env python
"""Compares Shade's gradients in bf16 with those of transformers in bf16, both by their distance from the exact ones.

usage: check_bf16.py [--limit 1.5] FOLDER     FOLDER/<case> is a model's folder with shade_<draw>.safetensors: records
                                              (input_ids, attention_mask), gradients (<kind>/<weight>), threshold

The loss of a record is the sum over its tokens. Kind `plain` is the gradient of the sum of all records' losses, compared
with one backward of transformers over the whole batch. Every other kind is a clipping method: the sum of the records'
gradients, each scaled down to the norm `threshold` if it is longer; transformers gets one record at a time, clips by
its own norms and sums in fp64. The error of a weight is |g - exact| / |exact|, with norms over its elements and all
draws of records: of a single small batch it is a matter of luck. Exact is transformers in fp64 from the same weights.
Exit status 1 if an error is more than `limit` times that of transformers.
"""

import argparse
import os
import pathlib
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")
torch.set_num_threads(1)  # small tensors


def load(folder, dtype):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()


def gradients(model, ids, mask):
    """By name, in fp64, of the summed loss of these records."""
    logits = model(ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    labels = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
    wide = logits if logits.dtype == torch.float64 else logits.float()  # as transformers' own loss does
    loss = torch.nn.functional.cross_entropy(wide.flatten(0, 1), labels.flatten(), reduction="sum")
    names, parameters = zip(*model.named_parameters())
    return {name: g.double() for name, g in zip(names, torch.autograd.grad(loss, parameters))}


def sums(model, ids, mask, thresholds):
    """For each threshold: the sum over records of what clipping to it leaves of their gradients."""
    totals = [{} for _ in thresholds]
    for row in range(len(ids)):
        record = gradients(model, ids[row:row + 1], mask[row:row + 1])
        norm = sum(g.norm().item() ** 2 for g in record.values()) ** 0.5
        for total, threshold in zip(totals, thresholds):
            factor = min(1.0, threshold / norm)
            for name, g in record.items():
                total[name] = g * factor if name not in total else total[name].add_(g, alpha=factor)
    return totals


class Error:
    """Of a weight's gradient, relative, in the norm over all draws of records."""

    def __init__(self):
        self.off, self.size = 0.0, 0.0

    def add(self, found, exact):
        self.off += (found - exact).square().sum().item()
        self.size += exact.square().sum().item()

    def value(self):
        return (self.off / self.size) ** 0.5


def measure(folder):
    """kind -> weight -> [our error, that of transformers]"""
    exact, rounded = load(folder, torch.float64), load(folder, torch.bfloat16)
    found = {}
    for file in sorted(folder.glob("shade_*.safetensors")):
        ours = load_file(file)
        ids, mask, threshold = ours.pop("input_ids"), ours.pop("attention_mask"), ours.pop("threshold").item()
        whole, clipped = sums(exact, ids, mask, [float("inf"), threshold])
        together, one_by_one = gradients(rounded, ids, mask), sums(rounded, ids, mask, [threshold])[0]
        for key, gradient in ours.items():
            kind, name = key.split("/")
            expected, theirs = (whole, together) if kind == "plain" else (clipped, one_by_one)
            pair = found.setdefault(kind, {}).setdefault(name, [Error(), Error()])
            pair[0].add(gradient.double(), expected[name])
            pair[1].add(theirs[name], expected[name])
    return {kind: {name: [e.value() for e in pair] for name, pair in weights.items()} for kind, weights in found.items()}


def check(folder, limit):
    """Prints a line per kind and returns the weights beyond the limit."""
    faults = []
    for kind, weights in sorted(measure(folder).items(), key=lambda item: (item[0] != "plain", item[0])):
        worst = max(weights, key=lambda name: weights[name][0] / weights[name][1])
        middle = [sorted(errors)[len(errors) // 2] for errors in zip(*weights.values())]
        own, theirs = weights[worst]
        print(f"{folder.name:32} {kind:18} {100 * middle[0]:6.2f} % {100 * middle[1]:6.2f} %   {own / theirs:5.2f}  "
              f"{worst} {100 * own:.2f} %", flush=True)
        faults += [f"{folder.name}, {kind}: {name} is off by {100 * own:.2f} %, transformers by {100 * theirs:.2f} %"
                   for name, (own, theirs) in weights.items() if not own <= limit * theirs]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--limit", type=float, default=1.5)
    arguments = parser.parse_args()
    print(f"{'case':32} {'kind':18} {'median':>8} {'of HF':>8}   worst ratio, its weight and error")
    faults = []
    for config in sorted(arguments.folder.glob("*/config.json")):
        faults += check(config.parent, arguments.limit)
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
