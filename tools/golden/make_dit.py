#!/usr/bin/env python
"""Goldens of the diffusion transformer in dit.py, computed in float64 from weights and images that fp32 holds exactly."""

import dataclasses
import json

import golden  # first: it sets what torch reads when it is loaded

import torch
import torch.nn.functional as F
from dit import Config, DiT
from safetensors.torch import load_file

CASES = {
    "dit": Config(hidden_size=16, depth=2, num_heads=2, patch_size=2, image_size=8, in_channels=3, num_classes=5),
    # No two widths alike (18 hidden, 45 inner, 64 in a patch, 32 frequencies): a transposed matrix cannot go unnoticed.
    "dit_rect": Config(hidden_size=18, depth=2, num_heads=3, patch_size=4, image_size=16, in_channels=4, num_classes=7,
                       mlp_ratio=2.5, frequency_dim=32),
    # As the published checkpoints, in small: positions that are not trained, a variance beside the noise.
    "dit_published": Config(hidden_size=16, depth=2, num_heads=2, patch_size=2, image_size=8, in_channels=4,
                            num_classes=5, frequency_dim=32, positions="sincos", learn_sigma=True),
}
SAMPLES = 3
STEPS = 12  # of the sampler
KEEP = ("pos_embed", "x_embedder.proj.bias")  # sample gradients stored whole; small, and each a layer kind of its own


def run_rounded(config, weights, images, timesteps, labels, noise, dtype):
    """Outputs and gradients, from weights and images rounded to bf16."""
    model = DiT(config, F.scaled_dot_product_attention).to(dtype)
    model.load_state_dict({k: v.bfloat16().to(dtype) for k, v in weights.items()})
    images, noise = images.bfloat16().to(dtype), noise.bfloat16().to(dtype)
    losses = model.losses(images, timesteps, labels, noise)
    grads = torch.autograd.grad(losses.sum(), list(model.parameters()))
    with torch.no_grad():
        return model(images, timesteps, labels), grads


def sample(model, noise, labels, steps, guidance):
    """Images by DDIM (eta 0) from noise: timesteps evenly from 999 to 0, the predicted image clipped to [-1, 1] as in
    improved-diffusion's ddim_sample, classifier-free guidance of the noise."""
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64), 0)
    times = torch.linspace(999, 0, steps, dtype=torch.float64).round().long()
    channels, nobody = model.config.in_channels, torch.full_like(labels, model.config.num_classes)
    x = noise.double()
    for i, t in enumerate(times):
        at_B = t.expand(len(x))
        with_class, without = model(x, at_B, labels)[:, :channels], model(x, at_B, nobody)[:, :channels]
        predicted = without + guidance * (with_class - without)
        a, after = kept[t], kept[times[i + 1]] if i + 1 < steps else torch.ones(())
        image = ((x - (1 - a).sqrt() * predicted) / a.sqrt()).clamp(-1, 1)
        x = after.sqrt() * image + (1 - after).sqrt() * (x - a.sqrt() * image) / (1 - a).sqrt()
    return x


def make(name, config, folder):
    folder.mkdir(parents=True, exist_ok=True)
    random = golden.generator(name)
    original = DiT(config)
    golden.randomise(original, random)
    golden.save(original.state_dict(), folder / "model.safetensors")
    written = dataclasses.asdict(config)
    for key, default in (("positions", "learned"), ("learn_sigma", False)):  # left out, a reader must assume these
        if written[key] == default:
            del written[key]
    (folder / "config.json").write_text(json.dumps(written, indent=2) + "\n")

    shape = (SAMPLES, config.in_channels, config.image_size, config.image_size)
    images, noise = golden.normal(random, shape), golden.normal(random, shape)
    timesteps = torch.tensor([0, 417, 999])  # both ends of the usual thousand
    labels = torch.tensor([2, config.num_classes, 0])  # num_classes: a dropped label

    model = DiT(config).double()
    model.load_state_dict(load_file(folder / "model.safetensors"))

    def losses_of(rows):
        return model.losses(images[rows].double(), timesteps[rows], labels[rows], noise[rows].double())

    tensors = golden.gradients(model, losses_of, SAMPLES, [name for name in KEEP if name in dict(model.named_parameters())])
    with torch.no_grad():
        output = model(images.double(), timesteps, labels)
        fused = DiT(config, F.scaled_dot_product_attention).double()
        fused.load_state_dict(model.state_dict())
        golden.close("fused attention", fused(images.double(), timesteps, labels), output, 1e-12)
        losses = losses_of(list(range(SAMPLES)))
    inputs = (config, original.state_dict(), images, timesteps, labels, noise)
    tensors["pytorch_bf16_error"] = golden.bf16_error(run_rounded(*inputs, torch.float64),
                                                      run_rounded(*inputs, torch.bfloat16))
    with torch.no_grad():
        classes = torch.tensor([2, 0, config.num_classes - 1])
        sampled = {f"guidance_{guidance}": sample(model, noise, classes, STEPS, guidance) for guidance in (0, 1, 4)}
    golden.save(sampled | {"noise": noise, "labels": classes}, folder / "sampled.safetensors")
    golden.save(tensors | {"images": images, "noise": noise, "timesteps": timesteps, "labels": labels, "output": output,
                           "losses": losses}, folder / "case.safetensors")
    print(f"{name:28} losses {' '.join(f'{x:.4f}' for x in losses.tolist())}")


def main():
    out = golden.output_folder(__doc__)
    for name, config in CASES.items():
        make(name, config, out / name)


if __name__ == "__main__":
    main()
