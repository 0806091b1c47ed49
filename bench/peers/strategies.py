"""How PyTorch shares a training step among ranks.

  none            one process
  ddp             DistributedDataParallel: everybody holds everything, gradients are averaged
  fsdp2_keep      fully_shard, weights gathered once a step: ZeRO-2
  fsdp2_reshard   fully_shard, weights gathered anew in backward: ZeRO-3
"""

import contextlib
import os
import time
import unittest.mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STRATEGIES = ("none", "ddp", "fsdp2_keep", "fsdp2_reshard")


def join(store, device="cpu"):
    """Meets the other ranks. Who we are is in torchrun's variables; where to meet as well, or it is a file."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    meeting = f"file://{store}" if store else "env://"
    dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method=meeting, rank=rank, world_size=world)
    return rank


def precision(strategy, mixed, device="cpu"):
    """The context of a forward pass. fully_shard casts by itself."""
    autocast = mixed and not strategy.startswith("fsdp2")
    return torch.autocast(device, torch.bfloat16) if autocast else contextlib.nullcontext()


def distribute(model, strategy, mixed, private=False, device="cpu"):
    """The model as its ranks train it. Mixed: computed in bf16; weights, reductions and AdamW in fp32."""
    if strategy == "none":
        return model
    if strategy == "ddp" and private:
        from opacus.distributed import DifferentiallyPrivateDistributedDataParallel

        return DifferentiallyPrivateDistributedDataParallel(model)  # only makes the weights alike; see privacy.py
    if strategy == "ddp":
        # Gradients that are views of what is sent: a little less memory, and Python (peak_memory) sees the buckets.
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    return shard(model, mixed, strategy == "fsdp2_reshard", device)


def shard(model, mixed, reshard, device):
    # Only here: these imports take longer than all others together.
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh(device, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else MixedPrecisionPolicy()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    # The rest is kept, as PyTorch does by itself: the head is the last of forward and the first of backward.
    return fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def meet(strategy):
    """Returns when all ranks are here. Waiting, a rank sleeps."""
    if strategy != "none":
        dist.barrier()


def leave():
    if dist.is_initialized():
        dist.destroy_process_group()


@contextlib.contextmanager
def unhurried():
    """While it lasts, fully_shard's collectives return when Gloo's threads have let go of the tensors too.

    Whoever lets go last releases the memory, and what those threads release the profiler doesn't see.
    """

    def slow(collective):
        def call(*positional, async_op=False, **named):
            work = collective(*positional, async_op=True, **named)
            work.wait()
            time.sleep(0.05)
            return work if async_op else None

        return call

    names = ("all_gather_single", "reduce_scatter_single")
    with contextlib.ExitStack() as patches:
        for name in names:
            patches.enter_context(unittest.mock.patch.object(dist, name, slow(getattr(dist, name))))
        yield
