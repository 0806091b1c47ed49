#!/usr/bin/env python
"""Trains as transformers' Trainer and PEFT do, and compares with runs of Shade.

usage: transformers_training.py FOLDER

FOLDER/cases.json (written by transformers_training_test.cpp) has the token ids of the records, the order of each epoch,
and a list of references: a model's folder, settings of TrainingArguments, LoraConfig's if there are adapters, and the
runs of Shade that must equal it. A run is a folder with metrics.jsonl and, in `model` or `adapter`, what was exported.
Settings that are not named are the defaults of TrainingArguments and LoraConfig.
"""

import json
import pathlib
import sys

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PrinterCallback, Trainer, TrainingArguments
from transformers.utils import logging

# What a loss is the mean over: "token", as the Trainer's own loss, or "record", the mean of each record's mean.
LOSS_MEAN = "token"
MOST = 1e-4  # by which a step's loss and each weight may differ; a gradient's norm by ten times that part of itself

torch.set_num_threads(1)
logging.set_verbosity_error()
logging.disable_progress_bar()


class Order(torch.utils.data.Sampler):
    """The epochs' orders as Shade drew them."""

    def __init__(self, epochs):
        self.epochs, self.next = epochs, 0

    def __iter__(self):
        self.next += 1
        return iter(self.epochs[self.next - 1])

    def __len__(self):
        return len(self.epochs[0])


def collate(records):
    longest = max(map(len, records))
    pad = lambda ids, value: ids + [value] * (longest - len(ids))
    return {"input_ids": torch.tensor([pad(ids, 0) for ids in records]),
            "attention_mask": torch.tensor([pad([1] * len(ids), 0) for ids in records]),
            "labels": torch.tensor([pad(ids, -100) for ids in records])}


class Recorder(Trainer):
    """The Trainer, in a given order, with the loss of each step."""

    def __init__(self, case, **options):
        self.case = case
        self.losses = [0.0] * case["steps"]
        super().__init__(compute_loss_func=self.record_mean if LOSS_MEAN == "record" else None, **options)

    def _get_train_sampler(self, *_):
        return Order(self.case["epochs"])

    def record_mean(self, outputs, labels, num_items_in_batch=None):
        logits, targets = outputs.logits[:, :-1].float(), labels[:, 1:]
        tokens = torch.nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none", ignore_index=-100)
        return (tokens.sum(1) / (targets != -100).sum(1)).sum() / self.case["batches"][self.state.global_step]

    def compute_loss(self, *args, **options):
        loss = super().compute_loss(*args, **options)
        self.losses[self.state.global_step] += loss.item()
        return loss


def train(case, work):
    model = AutoModelForCausalLM.from_pretrained(case["model"])
    if "lora" in case:
        torch.manual_seed(0)
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **case["lora"]))
        begin_alike(model, load_file(case["adapters"]))
    arguments = TrainingArguments(output_dir=str(work), use_cpu=True, report_to="none", save_strategy="no", logging_steps=1,
                                  disable_tqdm=True, remove_unused_columns=False, max_steps=case["steps"], **case["arguments"])
    trainer = Recorder(case, model=model, args=arguments, train_dataset=case["records"], data_collator=collate)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    norms = [line["grad_norm"] for line in trainer.state.log_history if "grad_norm" in line]
    weights = get_peft_model_state_dict(model) if "lora" in case else model.state_dict()
    return trainer.losses, norms, weights


def begin_alike(model, ours):
    """Shade's first adapters in PEFT's model, after a look at whether PEFT could have drawn them."""
    seen = 0
    for name, weight in model.named_parameters():
        if ".lora_" not in name:
            continue
        mine = ours[name.removeprefix("base_model.model.").replace(".default", "")]
        bound = weight.shape[1] ** -0.5
        if "lora_A" in name:
            for whose, values in (("PEFT", weight), ("Shade", mine)):
                spread = values.std().item() / bound * 3 ** 0.5
                if values.abs().max() > bound or not 0.85 < spread < 1.15:
                    raise SystemExit(f"{name}: {whose}'s is not from U(-{bound:g}, {bound:g})")
        elif weight.any() or mine.any():
            raise SystemExit(f"{name}: B begins with other values than 0")
        weight.data.copy_(mine)
        seen += 1
    if seen != len(ours):
        raise SystemExit(f"{seen} adapters in PEFT's model, {len(ours)} in Shade's")


def compare(run, losses, norms, weights):
    lines = [line for line in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if "step_ms" in line]
    if len(lines) != len(losses):
        raise SystemExit(f"{run.name}: {len(lines)} steps, expected {len(losses)}")
    gap = max(abs(line["loss"] - loss) for line, loss in zip(lines, losses))
    norm_gap = max(abs(line["grad_norm"] / norm - 1) for line, norm in zip(lines, norms))
    ours = load_file(next(run.glob("*/*.safetensors")))
    if not ours.keys() <= weights.keys():
        raise SystemExit(f"{run.name}: unknown weights {sorted(ours.keys() - weights.keys())}")
    distance = max((ours[name] - weights[name]).abs().max().item() for name in ours)
    print(f"{run.name:24} losses {losses[0]:.4f} to {losses[-1]:.4f} within {gap:.1e}, gradient norms within {norm_gap:.1e}, "
          f"weights within {distance:.1e}")
    return max(gap, norm_gap / 10, distance) <= MOST


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    told = json.loads((folder / "cases.json").read_text())
    good = total = 0
    for case in told["references"]:
        found = train({**told, **case}, folder / "transformers")
        for run in case["runs"]:
            good += compare(folder / run, *found)
            total += 1
    print(f"{good} of {total} runs are those of transformers")
    return good != total


if __name__ == "__main__":
    sys.exit(main())
