#!/usr/bin/env python
"""A PyTorch model that trains when told to, so that two programs can be timed in turns on a noisy machine.

Commands, a line each, on standard input; answers, a JSON line each, on standard output:
  (start)   {"ready": true, "params": n}
  run       one forward and backward (with --what step: and AdamW)      {"ms": t, "cpu_ms": c}
  memory    the same, its tensor memory counted (see peak_memory.py)    {"peak_mb": x, "base_mb": y, "peak_bytes": ...}
  quit      ends; so does the end of the input
cpu_ms is the CPU time of all threads: well below ms x threads, and something else had the cores. Between commands it sleeps. MB are 2^20 bytes. Gradients are dropped after each run, outside of the timing.
"""

import argparse
import json
import sys
import time

import torch

import peak_memory
import peer_models

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TASKS = {"llama": "classify", "dit": "denoise"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=TASKS, default="llama")
    parser.add_argument("--task", choices=TASKS.values(), help="default: what the model is for")
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=512, help="llama: tokens")
    parser.add_argument("--vocab", type=int, default=8192, help="llama")
    parser.add_argument("--image-size", type=int, default=256, help="dit")
    parser.add_argument("--patch-size", type=int, default=8, help="dit")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="of weights and activations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--what", choices=("fwdbwd", "step"), default="fwdbwd")
    parser.add_argument("--warmup", type=int, default=1, help="runs before it says it is ready")
    arguments = parser.parse_args()
    if arguments.task not in (None, TASKS[arguments.model]):
        parser.error(f"{arguments.model} can only {TASKS[arguments.model]}")
    return arguments


def build(a):
    torch.manual_seed(0)
    if a.model == "llama":
        return peer_models.llama(a.hidden, a.layers, a.vocab, a.seq, a.batch, DTYPES[a.dtype])
    return peer_models.diffusion(a.hidden, a.layers, a.image_size, a.patch_size, a.batch, DTYPES[a.dtype])


def say(answer):
    print(json.dumps(answer), flush=True)


def main():
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    model, loss = build(arguments)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def work():
        loss().backward()
        if arguments.what == "step":
            optimizer.step()

    def drop_gradients():
        optimizer.zero_grad(set_to_none=True)

    # AdamW makes its moments in its first step. They belong to the base of `memory`, so that step has to be over.
    for _ in range(max(arguments.warmup, arguments.what == "step")):
        work()
        drop_gradients()
    say({"ready": True, "params": sum(p.numel() for p in model.parameters())})

    for line in sys.stdin:
        command = line.strip()
        if command == "run":
            start, cpu_start = time.perf_counter(), time.process_time()
            work()
            elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu_start
            drop_gradients()
            say({"ms": round(1000 * elapsed, 3), "cpu_ms": round(1000 * cpu, 3)})
        elif command == "memory":
            base, peak = peak_memory.measure(work)
            drop_gradients()
            say({"peak_mb": round(peak / peak_memory.MIB, 3), "base_mb": round(base / peak_memory.MIB, 3),
                 "peak_bytes": peak, "base_bytes": base})
        elif command == "quit":
            break
        elif command:
            say({"error": f"unknown command '{command}': expected run, memory or quit"})


if __name__ == "__main__":
    main()
