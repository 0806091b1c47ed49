#!/usr/bin/env python
"""Goldens of Llama, Mistral, Qwen2 and Qwen3: tiny random models of Hugging Face transformers, computed in float64.

transformers computes norms, softmax and rotary angles in float32 whatever the model's dtype: better than bf16, but worse
than float64. Here its own code runs with the NAMES torch.float32 and torch.float bound to float64, which lifts these
islands without rewriting a line of the reference. That the meaning stays the same is checked against the untouched code.
"""

import contextlib
import copy
import dataclasses
import json
import warnings
from unittest import mock

import golden  # first: it sets what torch reads when it is loaded

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    MistralConfig,
    MistralForCausalLM,
    MistralForSequenceClassification,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForSequenceClassification,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3ForSequenceClassification,
)
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")

IGNORED = -100  # label of a position that has no loss
LABELS = 3

# 24 = 4 heads of 6; 37 and 44 are multiples of no vector width, so that kernels meet their tails.
SMALL = dict(hidden_size=24, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=41, max_position_embeddings=64, rms_norm_eps=1e-5, use_cache=False)
QWEN2 = dict(SMALL, rms_norm_eps=1e-6, max_window_layers=2)


def rope(theta=10000.0, **scaling):
    return {"rope_type": "default", "rope_theta": theta, **scaling}


# Heads of 8 have angles of wavelength 6, 63, 628 and 6283. Limits at 64 / 4 = 16 and 64 / 0.25 = 256 leave the first as
# it is, interpolate the second and divide the last two: each branch of the rule is taken.
ROPE_LLAMA3 = rope(rope_type="llama3", factor=8.0, low_freq_factor=0.25, high_freq_factor=4.0,
                   original_max_position_embeddings=64)


@dataclasses.dataclass
class Case:
    kind: type
    config: object
    lengths: tuple  # tokens of each sample; the rest up to the longest is padding on the right
    keep: tuple = ()  # parameters whose per-sample gradients are stored whole
    shards: str = ""  # also store the checkpoint in files of this size


CASES = {
    "llama_lm": Case(
        LlamaForCausalLM, LlamaConfig(**SMALL, rope_parameters=rope(), pad_token_id=0), (9, 6, 4), shards="16KB",
        keep=("model.layers.0.self_attn.k_proj.weight", "model.layers.1.post_attention_layernorm.weight")),
    "llama_lm_rope_llama3": Case(
        LlamaForCausalLM, LlamaConfig(**dict(SMALL, hidden_size=32, max_position_embeddings=512),
                                      rope_parameters=ROPE_LLAMA3), (11, 11, 11)),
    "llama_lm_tied": Case(
        LlamaForCausalLM, LlamaConfig(**SMALL, rope_parameters=rope(500000.0), pad_token_id=0, tie_word_embeddings=True),
        (10, 7, 8), keep=("model.embed_tokens.weight", "model.norm.weight")),
    "llama_lm_bias": Case(
        LlamaForCausalLM, LlamaConfig(**SMALL, rope_parameters=rope(), attention_bias=True, mlp_bias=True), (7, 7, 7),
        keep=("model.layers.0.self_attn.o_proj.bias", "model.layers.1.mlp.gate_proj.bias")),
    "llama_mqa": Case(  # one key-value head, and 4 heads of 8 on a width of 24
        LlamaForCausalLM, LlamaConfig(**dict(SMALL, num_key_value_heads=1), head_dim=8, rope_parameters=rope()), (8, 8, 5)),
    "qwen2_lm": Case(
        Qwen2ForCausalLM, Qwen2Config(**QWEN2, rope_parameters=rope(1000000.0)), (9, 5, 7),
        keep=("model.layers.0.self_attn.q_proj.bias", "model.layers.1.self_attn.v_proj.bias")),
    "qwen2_lm_tied": Case(
        Qwen2ForCausalLM, Qwen2Config(**QWEN2, rope_parameters=rope(1000000.0), tie_word_embeddings=True), (8, 8, 8)),
    "llama_classify": Case(
        LlamaForSequenceClassification,
        LlamaConfig(**SMALL, rope_parameters=rope(), pad_token_id=0, num_labels=LABELS), (9, 4, 7),
        keep=("score.weight", "model.norm.weight")),
    "qwen2_classify_tied_config": Case(  # tied as published small Qwen2 are, though a classifier has no head to tie
        Qwen2ForSequenceClassification,
        Qwen2Config(**QWEN2, rope_parameters=rope(1000000.0), pad_token_id=40, tie_word_embeddings=True,
                    num_labels=LABELS), (6, 9, 8)),
    "mistral_lm": Case(  # the longest sample just fits into the window
        MistralForCausalLM, MistralConfig(**SMALL, rope_parameters=rope(1000000.0), sliding_window=9), (9, 6, 4)),
    "mistral_classify": Case(
        MistralForSequenceClassification,
        MistralConfig(**SMALL, rope_parameters=rope(), sliding_window=None, pad_token_id=0, num_labels=LABELS), (5, 8, 7)),
    "qwen3_lm": Case(  # 4 heads of 8 on a width of 24
        Qwen3ForCausalLM, Qwen3Config(**QWEN2, head_dim=8, rope_parameters=rope(1000000.0)), (9, 5, 7),
        keep=("model.layers.0.self_attn.q_norm.weight", "model.layers.1.self_attn.k_norm.weight")),
    "qwen3_lm_tied_bias": Case(
        Qwen3ForCausalLM, Qwen3Config(**QWEN2, head_dim=6, rope_parameters=rope(1000000.0), attention_bias=True,
                                      tie_word_embeddings=True, pad_token_id=0), (8, 6, 8)),
    "qwen3_classify_tied_config": Case(
        Qwen3ForSequenceClassification,
        Qwen3Config(**QWEN2, head_dim=8, rope_parameters=rope(1000000.0), pad_token_id=40, tie_word_embeddings=True,
                    num_labels=LABELS), (6, 9, 8)),
}


@contextlib.contextmanager
def float32_means_float64():
    with mock.patch.object(torch, "float32", torch.float64), mock.patch.object(torch, "float", torch.float64):
        yield


def build(case, weights, attention="eager", dtype=torch.float64):
    config = copy.deepcopy(case.config)
    config._attn_implementation = attention
    model = case.kind(config).to(dtype).eval()
    model.load_state_dict(weights)
    return model


def write_published_style(config, path):
    """The config with the keys of transformers 4, in which nearly all published checkpoints are written."""
    values = json.loads(config.to_json_string())
    del values["transformers_version"]
    values["torch_dtype"] = values.pop("dtype")
    scaling = values.pop("rope_parameters")
    values["rope_theta"] = scaling.pop("rope_theta")
    values["rope_scaling"] = None if scaling == {"rope_type": "default"} else scaling
    assert type(config).from_dict(copy.deepcopy(values)).rope_parameters == config.rope_parameters
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def make_inputs(case, random):
    samples, length = len(case.lengths), max(case.lengths)
    ids = golden.integers(random, 1, case.config.vocab_size - 1, (samples, length))
    mask = (torch.arange(length) < torch.tensor(case.lengths)[:, None]).long()
    pad = case.config.pad_token_id
    # The padding token also inside a text, where it is a token like any other but for its embedding's gradient, which
    # transformers leaves at zero.
    ids[0, 2] = pad if pad is not None else 0
    ids = ids.where(mask == 1, 0 if pad is None else pad)
    if case.kind.__name__.endswith("SequenceClassification"):
        return ids, mask, golden.integers(random, 0, LABELS, (samples,))
    labels = ids.where(mask == 1, IGNORED)
    labels[0, :3] = IGNORED  # a prompt
    labels[1, 3] = IGNORED  # a hole
    return ids, mask, labels


def losses_of(logits, labels):
    """(mean, sum) of each sample. transformers' own loss would round the logits to float32."""
    if labels.dim() == 1:
        loss = F.cross_entropy(logits, labels, reduction="none")
        return loss, loss
    logits, labels = logits[:, :-1], labels[:, 1:]  # position t predicts token t + 1
    tokens = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none")
    total = tokens.sum(1)
    return total / (labels != IGNORED).sum(1), total


def check(case, weights, model, ids, mask, labels, tensors):
    """The golden against untouched transformers, the other attention, transformers' loss, and no mask at all."""
    real = mask.bool() if labels.dim() == 2 else torch.ones(len(labels), dtype=torch.bool)
    untouched = build(case, weights)(ids, attention_mask=mask)
    islands = golden.close("untouched transformers", untouched.logits, tensors["logits"], 1e-5)
    for i, loss in enumerate(tensors["losses"]):
        theirs = build(case, weights)(ids[i:i + 1], attention_mask=mask[i:i + 1], labels=labels[i:i + 1]).loss
        golden.close(f"transformers' loss of sample {i}", theirs, loss, 1e-5)
    with float32_means_float64():
        sdpa = build(case, weights, "sdpa")(ids, attention_mask=mask).logits
        golden.close("sdpa attention", sdpa[real], tensors["logits"][real], 1e-12)
        unmasked = model(ids).logits
        golden.close("padding seen by real tokens", unmasked[real], tensors["logits"][real], 1e-12)
    return islands


def run_rounded(case, weights, ids, mask, labels, dtype):
    """Outputs of real positions and gradients, from weights rounded to bf16."""
    model = build(case, {k: v.bfloat16().to(dtype) for k, v in weights.items()}, "sdpa", dtype)
    logits = model(ids, attention_mask=mask).logits
    losses, _ = losses_of(logits.to(max((dtype, torch.float32), key=lambda t: t.itemsize)), labels)
    grads = torch.autograd.grad(losses.sum(), list(model.parameters()))
    return (logits[mask.bool()] if labels.dim() == 2 else logits), grads


def make(name, case, folder):
    random = golden.generator(name)
    original = case.kind(case.config)
    golden.randomise(original, random)
    original.save_pretrained(folder)
    if case.shards:
        original.save_pretrained(folder / "sharded", max_shard_size=case.shards)
        parts = {k: v for f in (folder / "sharded").glob("*.safetensors") for k, v in load_file(f).items()}
        whole = load_file(folder / "model.safetensors")
        assert parts.keys() == whole.keys() and all(parts[k].equal(whole[k]) for k in whole)
    write_published_style(original.config, folder / "config_v4.json")
    for settings in folder.rglob("generation_config.json"):  # nothing here generates
        settings.unlink()

    weights = original.state_dict()
    ids, mask, labels = make_inputs(case, random)
    with float32_means_float64():
        model = build(case, weights)

        def mean_losses(rows):
            return losses_of(model(ids[rows], attention_mask=mask[rows]).logits, labels[rows])[0]

        tensors = golden.gradients(model, mean_losses, len(ids), case.keep)
        with torch.no_grad():
            logits = model(ids, attention_mask=mask).logits
    losses, sums = losses_of(logits, labels)
    tensors |= {"input_ids": ids, "attention_mask": mask, "labels": labels, "logits": logits, "losses": losses}
    if labels.dim() == 2:
        tensors["losses_sum"] = sums
    with torch.no_grad():
        islands = check(case, weights, model, ids, mask, labels, tensors)
    with float32_means_float64():
        exact = run_rounded(case, weights, ids, mask, labels, torch.float64)
    rounded = run_rounded(case, weights, ids, mask, labels, torch.bfloat16)
    tensors["pytorch_bf16_error"] = golden.bf16_error(exact, rounded)
    golden.save(tensors, folder / "case.safetensors")
    print(f"{name:28} losses {' '.join(f'{x:.4f}' for x in losses.tolist())}"
          f"   untouched transformers within {islands:.0e}")


def main():
    out = golden.output_folder(__doc__)
    for name, case in CASES.items():
        make(name, case, out / name)


if __name__ == "__main__":
    main()
