#!/usr/bin/env python
"""A PyTorch model that trains when told to, so that two programs can be timed in turns on a noisy machine.

Commands, a line each, on standard input; answers, a JSON line each, on standard output:
  (start)   {"ready": true, "params": n}
  run       one forward and backward (with --what step: and AdamW)      {"ms": t, "cpu_ms": c, "loss": l}
  memory    the same, its tensor memory counted (see peak_memory.py)    {"peak_mb": x, "base_mb": y, "peak_bytes": ...}
  quit      ends; so does the end of the input
cpu_ms is the CPU time of all threads: well below ms x threads, and something else had the cores. Between commands it sleeps.
MB are 2^20 bytes. Gradients are dropped after each run, outside of the timing but for private steps.

With a --strategy it is one of several ranks (see strategies.py), each a process with pipes of its own. All get each command; a
step begins when all have it and has taken as long as its slowest rank. ranks.py starts them.

With --dp the step is a private one by Opacus (see privacy.py): forward, two backward passes, clipping, noise, AdamW and zero_grad.
"""

import argparse
import json
import sys
import time

import torch

import peak_memory
import peer_models
import privacy
import strategies

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "bf16_mixed": torch.float32}
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
    parser.add_argument("--dtype", choices=DTYPES, default="fp32",
                        help="of weights and activations; bf16_mixed: of the computation alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: each rank its own GPU, over NCCL")
    parser.add_argument("--what", choices=("fwdbwd", "step"), default="fwdbwd")
    parser.add_argument("--strategy", choices=strategies.STRATEGIES, default="none")
    parser.add_argument("--dp", choices=privacy.MODES, default="none", help="a private step, by Opacus")
    parser.add_argument("--sigma", type=float, default=1.0, help="dp: noise, in units of --max-grad-norm")
    parser.add_argument("--max-grad-norm", type=float, default=1.0, help="dp: what each sample's gradient is clipped to")
    parser.add_argument("--store", help="file where the ranks meet; default: at torchrun's address")
    parser.add_argument("--warmup", type=int, default=1, help="runs before it says it is ready")
    arguments = parser.parse_args()
    if arguments.task not in (None, TASKS[arguments.model]):
        parser.error(f"{arguments.model} can only {TASKS[arguments.model]}")
    if arguments.strategy != "none" and arguments.model != "llama":
        parser.error("only llama is trained by several ranks")
    if arguments.strategy not in privacy.MODES[arguments.dp]:
        parser.error(f"--dp {arguments.dp} is for --strategy {' or '.join(privacy.MODES[arguments.dp])}")
    if arguments.dp != "none" and arguments.what != "step":
        parser.error("a private step is a whole one: --what step")
    return arguments


def build(a, rank):
    torch.manual_seed(0)
    if a.model == "llama":
        return peer_models.llama(a.hidden, a.layers, a.vocab, a.seq, a.batch, DTYPES[a.dtype], rank, a.device)
    return peer_models.diffusion(a.hidden, a.layers, a.image_size, a.patch_size, a.batch, DTYPES[a.dtype], a.device)


class Trainer:
    def __init__(self, a):
        self.strategy, self.with_update, self.mixed = a.strategy, a.what == "step", a.dtype == "bf16_mixed"
        self.private, self.device = a.dp != "none", a.device
        model, self.loss = build(a, strategies.join(a.store, a.device) if a.strategy != "none" else 0)
        self.params = sum(p.numel() for p in model.parameters())
        self.model = strategies.distribute(model, a.strategy, self.mixed, self.private, a.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        if self.private:
            self.optimizer, self.loss = privacy.make_private(a.dp, self.model, self.optimizer, self.loss, a.batch, a.sigma,
                                                             a.max_grad_norm)

    def work(self):
        with strategies.precision(self.strategy, self.mixed, self.device):
            loss = self.loss(self.model)
        loss.backward()
        if self.with_update:
            self.optimizer.step()
        if self.private:
            self.drop_gradients()
        return loss.detach()

    def drop_gradients(self):
        self.optimizer.zero_grad(set_to_none=True)

    def run(self):
        strategies.meet(self.strategy)
        self.wait_for_device()
        start, cpu_start = time.perf_counter(), time.process_time()
        loss = self.work()
        self.wait_for_device()
        elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu_start
        self.drop_gradients()
        return {"ms": round(1000 * elapsed, 3), "cpu_ms": round(1000 * cpu, 3), "loss": loss.item()}

    def wait_for_device(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def memory(self):
        if self.device == "cuda":
            base, peak = peak_memory.measure_on_gpu(self.work)
        else:
            with strategies.unhurried():
                base, peak = peak_memory.measure(self.work)
        self.drop_gradients()
        return {"peak_mb": round(peak / peak_memory.MIB, 3), "base_mb": round(base / peak_memory.MIB, 3),
                "peak_bytes": peak, "base_bytes": base}


def say(answer):
    print(json.dumps(answer), flush=True)


def main():
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    trainer = Trainer(arguments)
    # What first steps make for good belongs to the base of `memory`: AdamW's moments in the first, DDP's final buckets in the second.
    needed = 2 if arguments.strategy != "none" else arguments.what == "step"
    for _ in range(max(arguments.warmup, needed)):
        trainer.run()
    say({"ready": True, "params": trainer.params})

    commands = {"run": trainer.run, "memory": trainer.memory}
    for line in sys.stdin:
        command = line.strip()
        if command == "quit":
            break
        if command in commands:
            say(commands[command]())
        elif command:
            say({"error": f"unknown command '{command}': expected run, memory or quit"})
    strategies.leave()


if __name__ == "__main__":
    main()
