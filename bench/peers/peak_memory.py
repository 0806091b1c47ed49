#!/usr/bin/env python
"""Peak tensor memory of a piece of eager PyTorch on the CPU, exact to the byte. Run it to see it checked by hand-made cases.

PyTorch keeps no such figure for the CPU, but its profiler reports each allocation and each release of the CPU allocator.
Their running sum is the memory in use; its maximum the peak. That counts what operators allocate inside themselves too, which
watching tensors from Python would miss, and it counts bytes asked for, so neither malloc's habits nor other libraries matter.
"""

import gc
import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

MIB = 2**20


def tensor_bytes_alive():
    """Bytes of all storages that Python can reach, each counted once however many tensors look at it.

    A tensor that stands for parts on several ranks has no storage; the part on this rank is a tensor of its own.
    """
    tensors = [t for t in gc.get_objects() if issubclass(type(t), torch.Tensor) and not is_traceable_wrapper_subclass(t)]
    storages = [t.untyped_storage() for t in tensors]
    return sum({s.data_ptr(): s.nbytes() for s in storages}.values())


def measure(work):
    """(base, peak) in bytes: what was alive before `work()`, and the most that was alive during it, base included.

    The release of a tensor that was alive before isn't reported. Nothing of the base may therefore end during `work`; a
    training step that starts without gradients satisfies this.
    """
    gc.collect()
    base = tensor_bytes_alive()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        work()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda e: e.start_ns())
    now = most = 0
    for event in events:
        now += event.nbytes()
        most = max(most, now)
    return base, base + most


def measure_on_gpu(work):
    """The same by the figures of CUDA's allocator."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    base = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return base, torch.cuda.max_memory_allocated()


def checks():
    """(what, counted, expected by hand), in bytes."""
    n, d, p = 300, 200, 100
    x = torch.randn(n, d)
    x_turned = torch.randn(d, n).t()
    g = torch.randn(n, p)
    weight = torch.randn(p, d, requires_grad=True)
    leaf = torch.randn(n, p, requires_grad=True)

    def counted(work):
        base, peak = measure(work)
        return peak - base

    def one_after_another():
        a = torch.empty(MIB, dtype=torch.uint8)
        b = torch.empty(2 * MIB, dtype=torch.uint8)
        del a
        c = torch.empty(4 * MIB, dtype=torch.uint8)
        del b, c

    yield "1 MiB, 2 MiB, release the first, 4 MiB: 2 + 4", counted(one_after_another), 6 * MIB

    def linear():
        y = torch.nn.functional.linear(x, weight)
        y.backward(g)

    yield "linear and its backward: output and weight gradient", counted(linear), 4 * (n * p + p * d)
    weight.grad = None

    def saved():
        y = leaf.exp().exp().exp()
        y.backward(g)

    yield "three exponentials: 3 saved results and 2 gradients at once", counted(saved), 4 * 5 * n * p
    leaf.grad = None

    yield ("layer norm of a transposed input: the copy it makes inside, output, mean, deviation",
           counted(lambda: torch.nn.functional.layer_norm(x_turned, (d,))), 4 * (2 * n * d + 2 * n))

    model = torch.nn.Linear(d, p)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step():
        model(x).backward(g)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    before = tensor_bytes_alive()
    step()
    yield "what an optimizer keeps: 2 moments and 2 counters", tensor_bytes_alive() - before, 4 * (2 * (p * d + p) + 2)


def resident_growth(work):
    """How far the process grew during `work()`, as the kernel saw it, in bytes: coarser, but it knows nothing of PyTorch."""

    def read(key):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(key))

    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")  # the high-water mark starts anew
    before = read("VmRSS")
    work()
    return read("VmHWM") - before


def compare_with_kernel():
    import peer_models  # only here: the measurement itself needs no model

    model, loss = peer_models.llama(hidden=512, layers=2, vocabulary=8192, length=512, batch=2, dtype=torch.float32)

    def work():
        loss(model).backward()

    work()  # what libraries set up once
    model.zero_grad(set_to_none=True)
    base, peak = measure(work)
    model.zero_grad(set_to_none=True)
    print(f"Llama of 2 layers: counted {(peak - base) / MIB:.1f} MiB, the process grew {resident_growth(work) / MIB:.1f} MiB")


def main():
    # malloc must give memory back at once, or the kernel sees nothing new in later runs.
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"MALLOC_MMAP_THRESHOLD_": "16384"})
    torch.set_num_threads(1)
    failed = 0
    for what, found, expected in checks():
        failed += found != expected
        print(f"{'ok ' if found == expected else 'BAD'}  counted {found:>9} B, by hand {expected:>9} B   {what}")
    compare_with_kernel()
    raise SystemExit(failed != 0)


if __name__ == "__main__":
    main()
