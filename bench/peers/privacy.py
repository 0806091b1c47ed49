#!/usr/bin/env python
"""A private step as Opacus takes it. Run it, alone or by torchrun, to see it checked against one backward pass per sample.

  none         not private
  ghost        one process; with ddp each rank clips its own samples, the first adds the noise, the optimizer sums the gradients
  ghost_fsdp   with fully_shard: each rank clips its own samples and adds noise to its shards

Ghost clipping takes two backward passes: the first finds the norm of each sample's gradient layer by layer, the second is that of
the losses times their clipping factors. Opacus does both in the loss' backward(). Under fully_shard both gather the weights and
reduce the gradients, those of the first for nothing.
"""

import os
import warnings

import torch
import torch.distributed as dist
from torch import nn

import strategies

# and the strategies they go with
MODES = {"none": strategies.STRATEGIES, "ghost": ("none", "ddp"), "ghost_fsdp": ("fsdp2_keep", "fsdp2_reshard")}


class Positions(nn.Module):
    """The learned positions of a DiT as a layer, called by `x + positions`."""

    def __init__(self, table_ND):
        super().__init__()
        self.table_ND = table_ND

    def forward(self, x_BND):
        return x_BND + self.table_ND

    def __radd__(self, x_BND):
        return self(x_BND)


class Criterion:
    """A model's loss on its batch; Opacus asks for one per sample by setting the reduction."""

    reduction = "mean"

    def __init__(self, loss):
        self.loss = loss

    def __call__(self, module):
        return self.loss(module, self.reduction)


def register_norm_samplers():
    """For the layers that Opacus has none for. Their gradients are small or, of positions, at hand: each sample's is made."""
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.utils import register_norm_sampler

    def norms(gradients):
        return {parameter: gradient.flatten(1).norm(dim=1) for parameter, gradient in gradients.items()}

    def of_layer(gradients):
        return lambda layer, activations, backprops: norms(gradients(layer, activations, backprops))

    for kind in (nn.RMSNorm, nn.Conv2d):
        register_norm_sampler(kind)(of_layer(GradSampleModule.GRAD_SAMPLERS[kind]))
    register_norm_sampler(Positions)(of_layer(lambda layer, _, backprops: {layer.table_ND: backprops}))


def make_private(mode, model, optimizer, loss, batch, sigma, max_grad_norm):
    """The optimizer and the loss of a private step; `batch` is a rank's."""
    # Only here: nothing else needs Opacus.
    from opacus.grad_sample.utils import prepare_module
    from opacus.optimizers import get_optimizer_class
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    if hasattr(model, "pos_embed"):  # a module with parameters of its own would be one layer for Opacus, all of it
        table_ND = model.pos_embed
        del model.pos_embed
        model.pos_embed = Positions(table_ND)
    register_norm_samplers()
    # What its hooks on the first layers and on the last make PyTorch say; both are as they should be.
    warnings.filterwarnings("ignore", "Full backward hook is firing|FSDP2-wrapped module .* returned a view")
    hooks = prepare_module(model, mode, wrap_model=False, max_grad_norm=max_grad_norm)
    kind = get_optimizer_class("flat", distributed=dist.is_initialized(), grad_sample_mode=mode)
    optimizer = kind(optimizer, noise_multiplier=sigma, max_grad_norm=max_grad_norm, expected_batch_size=batch)
    return optimizer, DPLossFastGradientClipping(hooks, optimizer, Criterion(loss))


def clipped_one_by_one(model, losses, limit):
    """The sum of all samples' gradients, each clipped to `limit`, flat."""
    total = 0
    for sample in torch.cat([loss(model, "none") for loss in losses]):
        gradient = nn.utils.parameters_to_vector(torch.autograd.grad(sample, list(model.parameters()), retain_graph=True))
        total = total + gradient * min(1, limit / gradient.double().norm())  # fp32 would add up too many
    return total


def check(build, mode, strategy, sigma, limit, batch):
    """Whether a step's gradient is the mean of clipped ones, with the noise due."""
    world = dist.get_world_size() if strategy != "none" else 1
    samples = batch * world
    pairs = [build(rank) for rank in range(world)]
    model, loss = pairs[dist.get_rank() if strategy != "none" else 0]
    expected = clipped_one_by_one(model, [loss for _, loss in pairs], limit) / samples

    model = strategies.distribute(model, strategy, mixed=False, private=True)
    parameters = list(model.parameters())  # in the order of `expected`; positions become a layer below
    optimizer, loss = make_private(mode, model, torch.optim.AdamW(parameters, fused=True), loss, batch, sigma, limit)
    loss(model).backward()
    optimizer.step()
    found = nn.utils.parameters_to_vector([p.grad.full_tensor() if strategy.startswith("fsdp2") else p.grad for p in parameters])
    if sigma == 0:
        error = ((found - expected).norm() / expected.norm()).item()
        good = error < 1e-5 and found.norm() <= limit
        what = f"norm {found.norm():.4f} of at most {limit}, off by {error:.1e}"
    else:
        deviation, due = (found - expected).std().item(), sigma * limit / samples
        good = abs(deviation / due - 1) < 0.01
        what = f"noise of deviation {deviation:.4f}, due are {due:.4f}"
    if world == 1 or dist.get_rank() == 0:
        print(f"{'ok ' if good else 'BAD'}  {build.__name__}, {mode}, {strategy}, limit {limit}, sigma {sigma}: {what}")
    return good


def main():
    import peer_models  # only here: a step itself needs no model of ours

    def llama(rank):
        torch.manual_seed(0)
        return peer_models.llama(128, 2, 128, 16, 2, torch.float32, rank)

    def diffusion(_):
        torch.manual_seed(0)
        return peer_models.diffusion(128, 2, 32, 8, 2, torch.float32)

    torch.set_num_threads(1)
    cases = [(llama, "ghost", "none"), (diffusion, "ghost", "none")]
    if "RANK" in os.environ:
        strategies.join(store=None)
        cases = [(llama, "ghost", "ddp"), (llama, "ghost_fsdp", "fsdp2_keep"), (llama, "ghost_fsdp", "fsdp2_reshard")]
    good = [check(*case, sigma, limit, batch=2) for case in cases for sigma, limit in ((0, 0.1), (0, 10), (0, 100), (1, 1))]
    strategies.leave()
    raise SystemExit(not all(good))


if __name__ == "__main__":
    main()
