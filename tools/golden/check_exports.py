#!/usr/bin/env python
"""Loads exports of trained models in transformers and PEFT, and compares their predictions with Shade's.

usage: check_exports.py OUT RECORDS       OUT/<name>/model is an exported model, OUT/<name>/shade.safetensors and said.json
                                          what Shade predicts with it for the texts of RECORDS (.jsonl); OUT/<name>/adapter
                                          and base, if they are there, the adapters it was merged from and what they were
                                          trained on, predicted with by Shade too

All is computed in fp32, by the tokenizer of the export: in padded batches of 16 texts, and in pipelines made from the folder
alone. Logits must agree within 1e-4; classes, accuracy, the next token at every position, 32 tokens of greedy generation
(left-padded, with the export's generation_config.json) and the texts of the pipeline must be the same. Adapters must agree
with what Shade predicts with them; with the merged model in all predictions if both are fp32, in 97 % if the merged
weights were rounded to bf16.
"""

import json
import pathlib
import sys
import warnings

import golden  # first: it sets what torch reads when it is loaded

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, pipeline
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")

BATCH = 16


class Export:
    def __init__(self, folder):
        self.folder = folder
        self.model_folder, self.adapter, self.base = (folder / part for part in ("model", "adapter", "base"))
        self.said = json.loads((folder / "said.json").read_text())
        self.ours = load_file(folder / "shade.safetensors")
        self.config = AutoConfig.from_pretrained(self.model_folder)
        self.classifier = "SequenceClassification" in self.config.architectures[0]
        self.kind = AutoModelForSequenceClassification if self.classifier else AutoModelForCausalLM
        self.tokenizer = AutoTokenizer.from_pretrained(self.model_folder)

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

    def check_logits(self, part, found):
        ours = self.ours[f"{part}.logits"]
        distance = golden.close(f"{self.folder.name}: {part} logits", ours.double(), found.double(), 1e-4)
        self.require(ours.argmax(-1).equal(found.argmax(-1)), f"other classes by the {part}")
        return distance

    def check_class_pipeline(self, part, pipe, records):
        """`pipe` as a user calls it: the labels it names; and its logits."""
        texts = [record["text"] for record in records]
        names = [found["label"] for found in pipe(texts)]
        accuracy = sum(name == record["label"] for name, record in zip(names, records)) / len(records)
        self.require(accuracy == self.said[f"{part}.accuracy"],
                     f"accuracy {accuracy} by the pipeline of the {part}, {self.said[f'{part}.accuracy']} by shade eval")
        rows = pipe(texts, top_k=None, function_to_apply="none")
        numbers = {name: number for number, name in pipe.model.config.id2label.items()}
        found = torch.tensor([[score for _, score in sorted((numbers[entry["label"]], entry["score"]) for entry in row)]
                              for row in rows])
        return self.check_logits(part, found)

    def check_classes(self, model, records):
        found = self.predictions(model, [record["text"] for record in records])
        self.check_logits("model", found)
        distance = self.check_class_pipeline(
            "model", pipeline("text-classification", model=str(self.model_folder), dtype=torch.float32), records)
        names = [self.config.id2label[number] for number in found.argmax(-1).tolist()]
        accuracy = self.said["model.accuracy"]
        slack = 1e-9 if self.said["dtype"] == "float32" else 0.02  # training evaluates in bf16
        self.require(abs(accuracy - self.said["accuracy"]) <= slack,
                     f"accuracy {accuracy}, and {self.said['accuracy']} at the end of training")
        self.require(min(names.count(name) for name in set(self.config.id2label.values())) > len(names) // 10,
                     "nearly all texts have one class: nothing was learned")
        return f"accuracy {accuracy:.3f}, logits within {distance:.0e}"

    def check_text_pipeline(self, part, folder, texts):
        pipe = pipeline("text-generation", model=str(folder), dtype=torch.float32)
        for text, expected in zip(texts, self.said[f"{part}.texts"]):
            found = pipe(text, max_new_tokens=self.ours["model.generated"].shape[1], do_sample=False,
                         return_full_text=False)[0]["generated_text"]
            self.require(found == expected, f"the pipeline of the {part} continues {text!r} with {found!r}, not {expected!r}")

    def check_tokens(self, model, records):
        texts = [record["text"] for record in records]
        found = self.predictions(model, texts)
        rows = [row[:length - 1] for row, length in zip(self.ours["model.next"], self.ours["model.mask"].sum(1).tolist())]
        self.require(torch.cat(rows).equal(found), "other next tokens")
        generated = self.ours["model.generated"]
        prompts = generated.shape[0]
        batch = self.tokenizer(texts[:prompts], padding=True, return_tensors="pt", padding_side="left")
        width = batch["input_ids"].shape[1]
        made = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], do_sample=False,
                              max_new_tokens=generated.shape[1])
        ends = 0
        for i, row in enumerate(generated):
            row = row[row >= 0]
            ends += int(row[-1] == self.tokenizer.eos_token_id)
            self.require(made[i, width:width + len(row)].equal(row), f"other tokens generated for {texts[i]!r}")
            self.require(len(row) == generated.shape[1] or ends > 0, "generation stopped without an end")
        self.check_text_pipeline("model", self.model_folder, texts)
        return f"{len(found)} next tokens, {prompts} texts generated, {ends} of them ended"

    def check_adapter(self, merged, records):
        texts = [record["text"] for record in records]
        # Adapters carry a classifier's head, but neither the number nor the names of its classes: PEFT's format has none.
        options = {key: getattr(merged.config, key) for key in ("id2label", "label2id")} if self.classifier else {}
        base = self.kind.from_pretrained(self.base, dtype=torch.float32, **options)
        tokenizer = AutoTokenizer.from_pretrained(self.adapter)
        base.config.pad_token_id = tokenizer.pad_token_id
        adapted = PeftModel.from_pretrained(base, self.adapter).eval()
        found, expected = (self.predictions(model, texts) for model in (adapted, merged))
        if self.classifier:
            self.check_logits("adapter", found)
            pipe = pipeline("text-classification", model=adapted.base_model.model, tokenizer=tokenizer)
            self.check_class_pipeline("adapter", pipe, records)
            found, expected = found.argmax(-1), expected.argmax(-1)
        else:
            self.check_text_pipeline("adapter", self.adapter, texts)
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
            said += self.check_adapter(model, records)
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
