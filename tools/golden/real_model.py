#!/usr/bin/env python
"""What transformers and PEFT compute with a real pretrained model in fp32: logits, losses and every gradient of LoRA.

usage: real_model.py FOLDER OUT.safetensors       FOLDER: a language model with its tokenizer, as tools/real_model makes

OUT has input_ids, attention_mask, labels, logits, losses (one a sample: the mean over its tokens), and for every adapter
its random values (adapter.NAME) and the gradient of the summed losses (grad.NAME), with the names that Shade gives them.
"""

import sys
import warnings

import golden  # first: it sets what torch reads when it is loaded

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")

IGNORED = -100
RANK, ALPHA = 4, 8
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEXTS = ["The capital of France is Paris, and the capital of Italy is Rome.", "libfoo-dev: development files of libfoo, version 2.15",
         "for (int i = 0; i < n; ++i) { sum += values[i]; }"]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, out = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="right")
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    labels = ids.where(mask == 1, IGNORED)
    base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    model = get_peft_model(base, LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=TARGETS)).eval()
    random = golden.generator("real_model")
    adapters = {name.removeprefix("base_model.model.").replace(".default.", "."): parameter
                for name, parameter in model.named_parameters() if parameter.requires_grad}
    with torch.no_grad():  # both factors: with B at zero the gradient of A is zero
        for parameter in adapters.values():
            parameter.copy_(golden.normal(random, parameter.shape, 0.02))
    logits = model(ids, attention_mask=mask).logits
    # The model in fp32, the loss of its logits in fp64: PyTorch's fp32 sums over 49,152 classes alone move a gradient by
    # 8e-4 (over the middle of [B, V, T] by 7e-3).
    targets = labels[:, 1:]
    tokens = F.cross_entropy(logits[:, :-1].flatten(0, 1).double(), targets.flatten(), ignore_index=IGNORED, reduction="none")
    losses = tokens.view_as(targets).sum(1) / (targets != IGNORED).sum(1)
    grads = torch.autograd.grad(losses.sum(), list(adapters.values()))
    tensors = {"input_ids": ids, "attention_mask": mask, "labels": labels, "logits": logits, "losses": losses}
    for (name, parameter), grad in zip(adapters.items(), grads):
        tensors |= {"adapter." + name: parameter, "grad." + name: grad}
    golden.save(tensors, out)
    print(f"{len(adapters)} adapters, losses {losses.tolist()}")


if __name__ == "__main__":
    main()
