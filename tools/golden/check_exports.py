#!/usr/bin/env python
"""Loads exports of trained models in transformers and PEFT, and compares their predictions with Shade's.

usage: check_exports.py OUT RECORDS       OUT/<name>/model is an exported model, OUT/<name>/shade.safetensors what Shade
                                          predicts with it for the texts of RECORDS (.jsonl); OUT/<name>/adapter and base,
                                          if they are there, the adapters it was merged from and what they were trained on

All is computed in fp32, in padded batches of 16 texts, by the tokenizer of the export; a model of bytes has none, and its
texts are framed by the ids of config.json. Classes, the next token at every position and 32 tokens of greedy generation
(left-padded, with the export's generation_config.json) must be the same. An adapter on its base must agree with the merged
model: in all predictions if both are fp32, in 97 % if the merged weights were rounded to bf16.
"""

import json
import pathlib
import sys
import warnings

import golden  # first: it sets what torch reads when it is loaded

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")

BATCH = 16


class Bytes:
    """A stand-in for the tokenizer of bytes, which has no file: the frame is that of config.json."""

    def __init__(self, config, classifier):
        self.pad_token_id, self.eos_token_id = config.pad_token_id, config.eos_token_id
        self.before, self.after = [config.bos_token_id], [config.eos_token_id] if classifier else []

    def __call__(self, texts, padding_side="right", **_):
        rows = [self.before + list(text.encode()) + self.after for text in texts]
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), self.pad_token_id)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for i, row in enumerate(rows):
            begin = 0 if padding_side == "right" else width - len(row)
            ids[i, begin:begin + len(row)] = torch.tensor(row)
            mask[i, begin:begin + len(row)] = 1
        return {"input_ids": ids, "attention_mask": mask}


class Export:
    def __init__(self, folder):
        self.folder = folder
        self.model_folder, self.adapter, self.base = (folder / part for part in ("model", "adapter", "base"))
        self.said = json.loads((folder / "said.json").read_text())
        self.ours = load_file(folder / "shade.safetensors")
        self.config = AutoConfig.from_pretrained(self.model_folder)
        self.classifier = "SequenceClassification" in self.config.architectures[0]
        self.kind = AutoModelForSequenceClassification if self.classifier else AutoModelForCausalLM
        self.tokenizer = self.read_tokenizer(self.model_folder)

    def read_tokenizer(self, folder):
        if not (folder / "tokenizer.json").exists():
            return Bytes(self.config, self.classifier)
        return AutoTokenizer.from_pretrained(folder)

    def require(self, holds, fault):
        if not holds:
            raise SystemExit(f"{self.folder.name}: {fault}")

    def batches(self, texts, **options):
        for at in range(0, len(texts), BATCH):
            yield self.tokenizer(texts[at:at + BATCH], padding=True, truncation=True, return_tensors="pt", **options)

    def predictions(self, model, texts):
        """Classes, or the next token at every position that holds a token."""
        out = []
        for batch in self.batches(texts):
            batch = {key: batch[key] for key in ("input_ids", "attention_mask")}
            if self.classifier:
                self.require(batch["attention_mask"].min() == 0, "nothing is padded")
            logits = model(**batch).logits
            out.append(logits if self.classifier else logits.argmax(-1)[batch["attention_mask"].bool()])
        return torch.cat(out)

    def check_classes(self, model, records):
        found = self.predictions(model, [record["text"] for record in records])
        distance = golden.close(f"{self.folder.name}: logits", self.ours["logits"].double(), found.double(), 1e-4)
        self.require(self.ours["logits"].argmax(-1).equal(found.argmax(-1)), "other classes")
        names = [self.config.id2label[number] for number in found.argmax(-1).tolist()]
        accuracy = sum(name == record["label"] for name, record in zip(names, records)) / len(records)
        slack = 1e-9 if self.said["dtype"] == "float32" else 0.02  # training evaluates in bf16
        self.require(abs(accuracy - self.said["accuracy"]) <= slack,
                     f"accuracy {accuracy}, and {self.said['accuracy']} at the end of training")
        self.require(min(names.count(name) for name in set(self.config.id2label.values())) > len(names) // 10,
                     "nearly all texts have one class: nothing was learned")
        return f"accuracy {accuracy:.3f}, logits within {distance:.0e}"

    def check_tokens(self, model, records):
        texts = [record["text"] for record in records]
        found = self.predictions(model, texts)
        rows = [row[:length - 1] for row, length in zip(self.ours["next"], self.ours["mask"].sum(1).tolist())]
        self.require(torch.cat(rows).equal(found), "other next tokens")
        prompts = self.ours["generated"].shape[0]
        batch = self.tokenizer(texts[:prompts], padding=True, return_tensors="pt", padding_side="left")
        width = batch["input_ids"].shape[1]
        made = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], do_sample=False,
                              max_new_tokens=self.ours["generated"].shape[1])
        ends = 0
        for i, row in enumerate(self.ours["generated"]):
            row = row[row >= 0]
            ends += int(row[-1] == self.tokenizer.eos_token_id)
            self.require(made[i, width:width + len(row)].equal(row), f"other tokens generated for {texts[i]!r}")
            self.require(len(row) == self.ours["generated"].shape[1] or ends > 0, "generation stopped without an end")
        return f"{len(found)} next tokens, {prompts} texts generated, {ends} of them ended"

    def check_adapter(self, merged, texts):
        options = {"num_labels": merged.config.num_labels} if self.classifier else {}
        base = self.kind.from_pretrained(self.base, dtype=torch.float32, **options)
        base.config.pad_token_id = self.read_tokenizer(self.adapter).pad_token_id
        adapted = PeftModel.from_pretrained(base, self.adapter).eval()
        found, expected = (self.predictions(model, texts) for model in (adapted, merged))
        if self.classifier:
            found, expected = found.argmax(-1), expected.argmax(-1)
        same = (found == expected).double().mean().item()
        self.require(same >= (1 if self.said["dtype"] == "float32" else 0.97), f"PEFT predicts {same:.1%} alike")
        return f"; PEFT {same:.1%} alike"

    def check(self, records):
        self.require(str(self.config.dtype) == "torch." + self.said["dtype"], f"dtype is {self.config.dtype}")
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            known = getattr(self.tokenizer, key, getattr(self.config, key))
            value = getattr(self.config, key)
            self.require(value == known or (key == "pad_token_id" and not self.classifier),
                         f"{key} is {value} in config.json and {known} of the tokenizer")
        model = self.kind.from_pretrained(self.model_folder, dtype=torch.float32).eval()
        said = (self.check_classes if self.classifier else self.check_tokens)(model, records)
        if self.adapter.exists():
            said += self.check_adapter(model, [record["text"] for record in records])
        return said


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    records = [json.loads(line) for line in pathlib.Path(sys.argv[2]).read_text().splitlines()]
    folders = sorted(path.parent for path in pathlib.Path(sys.argv[1]).glob("*/said.json"))
    for folder in folders:
        with torch.no_grad():
            print(f"{folder.name:24} {Export(folder).check(records)}")
    print(f"{len(folders)} exports predict the same")


if __name__ == "__main__":
    main()
