"""What every maker of goldens shares: reproducible numbers, gradients sample by sample, and the file they go to."""

import argparse
import os
import pathlib
import zlib

# Before torch is loaded: one code path whatever vectors the CPU has, so that other machines get (nearly) the same bits.
os.environ.update(ATEN_CPU_CAPABILITY="default", MKL_CBWR="COMPATIBLE", OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")

import numpy
import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def output_folder(description):
    parser = argparse.ArgumentParser(description=description)
    default = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
    parser.add_argument("--out", type=pathlib.Path, default=default, help="folder that gets a folder per case")
    return parser.parse_args().out


def generator(case):
    """A stream of its own for each case, so that adding a case changes no other. numpy: torch's depends on the CPU."""
    return numpy.random.default_rng(zlib.crc32(case.encode()))


def normal(random, shape, scale=1.0):
    """Values that fp32 holds exactly: a reader in any precision of fp32 or above starts from the same numbers."""
    return torch.from_numpy(random.standard_normal(tuple(shape)) * scale).float()


def integers(random, low, high, shape):
    return torch.from_numpy(random.integers(low, high, shape))


def randomise(model, random):
    """Every parameter, also those usually set to ones or zeros, so that no gradient is trivially right."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:  # gains around one
                value = (1.0 + normal(random, parameter.shape, 0.3).double()).float()
            elif parameter.dim() == 1:  # biases
                value = normal(random, parameter.shape, 0.3)
            elif "embed_tokens" in name or "embedding_table" in name or name == "pos_embed":
                value = normal(random, parameter.shape, 0.3)  # small: a tied head then gives no extreme logits
            else:  # outputs as large as inputs: [out, in] or, for a convolution, [out, in, height, width]
                value = normal(random, parameter.shape, parameter[0].numel() ** -0.5)
            parameter.copy_(value)


def gradients(model, losses_of, samples, keep=()):
    """Gradients of the summed loss, and of each sample alone.

    `losses_of(rows)` runs the model on these rows of the batch. A sample's gradient comes from a batch of that sample
    only: nothing the samples might share can hide in it. `keep` names parameters whose sample gradients are stored.
    """
    names, parameters = zip(*model.named_parameters())

    def of(rows):
        return torch.autograd.grad(losses_of(rows).sum(), parameters)

    total = of(list(range(samples)))
    alone = [of([i]) for i in range(samples)]
    for name, whole, parts in zip(names, total, zip(*alone)):
        close("sum of sample gradients of " + name, sum(parts), whole, 1e-12)

    tensors = {"grad." + name: grad for name, grad in zip(names, total)}
    tensors["sample_grad_norms"] = torch.stack([sum(g.square().sum() for g in grads).sqrt() for grads in alone])
    for name in keep:
        for i, grads in enumerate(alone):
            tensors[f"sample_grad.{i}.{name}"] = grads[names.index(name)]
    return tensors


def bf16_error(exact, rounded):
    """How far PyTorch's own bf16 is from the truth: [outputs, whole gradient], relative, in the norm.

    Both are (outputs, gradients) of the same bf16 weights, computed in float64 and in bf16.
    """
    def distance(found, expected):
        flat = [torch.cat([t.detach().double().flatten() for t in tensors]) for tensors in (found, expected)]
        return (flat[0] - flat[1]).norm() / flat[1].norm()

    return torch.stack([distance([rounded[0]], [exact[0]]), distance(rounded[1], exact[1])])


def close(what, found, expected, tolerance):
    """Ends the run if the two disagree; else returns their distance, relative to the largest value expected."""
    distance = ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()
    if not distance <= tolerance:
        raise SystemExit(f"{what}: expected agreement within {tolerance:g}, found {distance:g}")
    return distance


def save(tensors, path):
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
