#!/usr/bin/env python
"""Private fine-tuning by Opacus on prompts and completions, to be compared with `shade train` on the same records.

usage: .deps/peers/bin/python bench/peers/completions.py MODEL TRAIN TEST [options]

  MODEL        a Hugging Face folder;  TRAIN, TEST: folders of .jsonl files with "prompt" and "completion"

LoRA by peft, Poisson batches, gradients per sample by hooks, PRV accountant. The loss of a record is the mean over the
tokens of its completion and the end of text; texts are padded to the longest of their micro-batch, which Opacus'
BatchMemoryManager cuts. Accuracy: the share of test records all of whose completion tokens are the most likely ones,
which is what greedy decoding matches exactly. Prints one JSON object; times are of training alone.
"""
import argparse
import json
import pathlib
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer

IGNORED = -100


def read(folder, tokenizer, most, longest):
    """(ids, labels) of each record: what is not of the completion is ignored."""
    out = []
    for file in sorted(pathlib.Path(folder).glob("*.jsonl")):
        for line in file.open(encoding="utf-8"):
            record = json.loads(line)
            prompt, completion = (tokenizer(record[part], add_special_tokens=False)["input_ids"] for part in ("prompt", "completion"))
            ids = (prompt + completion + [tokenizer.eos_token_id])[:longest]
            out.append((ids, ([IGNORED] * len(prompt) + completion + [tokenizer.eos_token_id])[:longest]))
            if len(out) == most:
                return out
    return out


def padded(records):
    length = max((len(ids) for ids, _ in records), default=1)
    rows = lambda part, fill: torch.tensor([r[part] + [fill] * (length - len(r[part])) for r in records]).view(len(records), length)
    mask = torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids, _ in records]).view(len(records), length)
    return {"input_ids": rows(0, 0), "attention_mask": mask, "labels": rows(1, IGNORED)}


def logits_and_targets(model, batch):
    positions = torch.arange(batch["input_ids"].shape[1]).expand_as(batch["input_ids"])  # Opacus wants the batch first
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], position_ids=positions).logits
    return logits[:, :-1], batch["labels"][:, 1:]


def losses(model, batch):
    logits, targets = logits_and_targets(model, batch)
    each = F.cross_entropy(logits.transpose(1, 2).float(), targets, ignore_index=IGNORED, reduction="none")
    return each.sum(1) / (targets != IGNORED).sum(1).clamp(min=1)


@torch.no_grad()
def evaluate(model, records, micro_batch):
    model.eval()
    right = loss = 0.0
    ordered = sorted(records, key=lambda record: len(record[0]))
    for begin in range(0, len(ordered), micro_batch):
        batch = padded(ordered[begin:begin + micro_batch])
        logits, targets = logits_and_targets(model, batch)
        counted = targets != IGNORED
        right += ((logits.argmax(-1) == targets) | ~counted).all(1).sum().item()
        loss += losses(model, batch).sum().item()
    model.train()
    return {"accuracy": right / len(records), "loss": loss / len(records)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model"), parser.add_argument("train"), parser.add_argument("test")
    parser.add_argument("--epsilon", type=float, default=8)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--seq-length", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--max-grad-norm", type=float, default=1)
    parser.add_argument("--lora-rank", type=int, default=16)
    parser.add_argument("--lora-targets", default="q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj")
    parser.add_argument("--max-records", type=int, default=0)
    parser.add_argument("--test-records", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    records = read(options.train, tokenizer, options.max_records, options.seq_length)
    test = read(options.test, tokenizer, options.test_records, options.seq_length)
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    model = get_peft_model(model, LoraConfig(r=options.lora_rank, lora_alpha=2 * options.lora_rank, lora_dropout=0,
                                             target_modules=options.lora_targets.split(","), task_type="CAUSAL_LM"))
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=options.lr, weight_decay=0)
    loader = DataLoader(records, batch_size=options.batch_size, collate_fn=padded)
    before = evaluate(model, test, options.micro_batch)
    engine = PrivacyEngine(accountant="prv")
    rate = options.batch_size / len(records)
    from opacus.accountants.utils import get_noise_multiplier
    sigma = get_noise_multiplier(target_epsilon=options.epsilon, target_delta=options.delta, sample_rate=rate, steps=options.steps, accountant="prv")
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=sigma,
                                                   max_grad_norm=options.max_grad_norm, poisson_sampling=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer.original_optimizer, lambda step: 1 - step / options.steps)
    done, tokens, began = 0, 0, time.perf_counter()
    while done < options.steps:
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=options.micro_batch, optimizer=optimizer) as parts:
            for batch in parts:
                optimizer.zero_grad()
                losses(model, batch).mean().backward()
                optimizer.step()
                tokens += int(batch["attention_mask"].sum())
                if not optimizer._is_last_step_skipped:
                    done += 1
                    schedule.step()
                    print(f"step {done} of {options.steps}, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
                    if done == options.steps:
                        break
    took = time.perf_counter() - began
    print(json.dumps({"peer": "opacus", "records": len(records), "sigma": sigma, "epsilon": engine.get_epsilon(options.delta), "seconds": took,
                      "tokens_per_second": tokens / took, "before": before, "after": evaluate(model, test, options.micro_batch),
                      "options": vars(options)}))


if __name__ == "__main__":
    main()
