#!/usr/bin/env python
"""Compares greedy generation of a model folder by Shade with transformers' own.

usage: check_generation.py MODEL GENERATED.json       GENERATED: {"max_new_tokens": N, "prompts": [{"prompt": a text or
                                                      messages, "ids": its tokens, "tokens": what was generated,
                                                      "ended": whether an end token followed}]}

Computed in fp32. The tokens of a prompt must be those of the folder's tokenizer or chat template, and the generated ones
the same, until the two best logits are closer than 1e-4: from there on either may be chosen.
"""

import json
import os
import pathlib
import sys

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is loaded

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()

TIE = 1e-4


def prompt_ids(tokenizer, prompt):
    if isinstance(prompt, str):
        return tokenizer(prompt)["input_ids"]
    words = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    return tokenizer(words, add_special_tokens=False)["input_ids"]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    said = json.loads(pathlib.Path(sys.argv[2]).read_text())
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
    ends = model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    alike = tokens = ended = 0
    for case in said["prompts"]:
        ids = prompt_ids(tokenizer, case["prompt"])
        if ids != case["ids"]:
            raise SystemExit(f"{case['prompt']!r} has the tokens {ids}, and {case['ids']} here")
        made = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                              do_sample=False, max_new_tokens=said["max_new_tokens"], return_dict_in_generate=True,
                              output_logits=True)
        expected = made.sequences[0, len(ids):].tolist()
        best = torch.cat(made.logits).double().topk(2).values
        gaps = (best[:, 0] - best[:, 1]).tolist()
        found = case["tokens"] + ([None] if case["ended"] else [])
        for at, (token, gap) in enumerate(zip(expected, gaps)):
            same = at < len(found) and (found[at] == token or (found[at] is None and token in ends))
            if not same and gap >= TIE:
                raise SystemExit(f"{case['prompt']!r}: token {at} is {token}, and {found[at:at + 1]} here; the two best "
                                 f"logits differ by {gap:.1e}")
            if not same:
                break
            tokens += 1
        ended += case["ended"]
        alike += 1
    print(f"{alike} prompts continued alike: {tokens} tokens, {ended} texts ended")


if __name__ == "__main__":
    main()
