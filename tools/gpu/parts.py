"""The parts of tools/gpu_check, in their order. Each yields rows: checks that pass or fail, and figures."""
import json
import os
import pathlib
import signal
import subprocess
import time

from kit import PEERS, STRATEGIES, at_most, check, distance, measured

def machine(kit):
    version = kit.run(kit.shade, "--version")
    for line in version.strip().splitlines():
        yield measured(*line.split(" ", 1))
    if kit.on_gpus():
        gpus = kit.run("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").splitlines()[1:]
        yield check("GPUs of this host", "; ".join(sorted(set(gpus))), "1 or more", gpus)
        yield check("NCCL is loaded", version.split("nccl ")[-1].strip(), "a version", "nccl none" not in version)


def conformance(kit):
    """Every collective against one process; with several hosts, by `shade verify` and `shade train` instead."""
    backend = {"cuda": "nccl", "cpu": "gloo"}[kit.o.device]
    emulated = "emulated_" if kit.o.device == "cuda" and not kit.on_gpus() else ""
    largest = "-*64MiB" if kit.o.size == "small" else ""
    output = kit.run(kit.o.tests / f"{emulated}conformance_test", f"--gtest_filter=*/{backend}_*{largest}")
    ran = output.count("[       OK ]")
    yield check(f"collectives over {backend}", f"{ran} cases", "1 or more, all pass", ran > 0)
    file = kit.output / kit.part / "comm.json"
    kit.run(*kit.words("comm", "--json", file))


def verify(kit):
    for words in ([], ["--all"]) if kit.o.size == "gpu" else ([],):
        output = kit.run(*kit.words("verify", *words))
        yield check(" ".join(["verify", *words]), output.strip().splitlines()[-1], "every gradient within its bound", True)


def noise(kit):
    """The noise kernel against the CPU's bits: on a GPU by the GPU, elsewhere by its instructions."""
    status, output = kit.run(kit.o.tests / "privacy_noise_test", ok=False)
    skipped = [line for line in output.splitlines() if line.startswith("[  SKIPPED ] ") and "(" in line]
    yield check("noise", f"{output.count('[       OK ]')} tests, {len(skipped)} skipped", "all pass", status == 0)
    if kit.on_gpus():
        yield check("noise of a GPU", "not tested" if skipped else "the host's bits", "the host's bits", not skipped)


def parity(kit):
    """Device against CPU: losses and weights of five steps."""
    for dp in ("none", "auto"):
        words = ["--dp", dp, *(["--sigma", 0, "--noise-seed", 1] if dp != "none" else [])]
        here = kit.train(f"device_{dp}", *words, ranks=1, device=kit.o.device)
        losses, numbers = distance(here, kit.train(f"cpu_{dp}", *words, ranks=1, device="cpu"))
        yield at_most(f"{dp}: losses, device against CPU", losses, 1e-4)
        yield at_most(f"{dp}: weights, device against CPU", numbers, 1e-4)


def sharding(kit):
    """Every strategy on all ranks against one rank."""
    if kit.o.ranks == 1:
        yield measured("strategies", "one rank has none")
        return
    words = ["--dp", "auto", "--sigma", 0, "--noise-seed", 1]
    alone = kit.train("alone", *words, ranks=1)
    for shard in STRATEGIES:
        losses, numbers = distance(kit.train(shard, *words, "--shard", shard), alone)
        yield at_most(f"{shard} on {kit.o.ranks} ranks: losses against 1", losses, 1e-4)
        yield at_most(f"{shard} on {kit.o.ranks} ranks: weights against 1", numbers, 1e-4)


def ranks_of(mark):
    """Processes of this host with our mark in their environment: {pid: rank or None}."""
    out = {}
    for folder in pathlib.Path("/proc").iterdir():
        try:
            words = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if f"SHADE_GPU_CHECK={mark}" in words:
            out[int(folder.name)] = next((int(w[5:]) for w in words if w.startswith("RANK=")), None)
    return out


def kill(kit):
    """SIGKILL to one rank: the job ends soon and whole, and the same command finishes it without losing count of epsilon."""
    steps = kit.size["kill_steps"]
    for shard in STRATEGIES if kit.o.ranks > 1 else ("none",):
        folder, mark = kit.output / kit.part / shard, f"{os.getpid()}_{shard}"
        subprocess.run(["rm", "-rf", folder], check=True)
        command = kit.words("train", "--model", "llama-nano", "--from-scratch", "--task", "lm", "--synthetic", "--records", 4096,
                            *kit.size["train"].split(), "--steps", steps, "--log-every", 1, "--save-every", 5, "--dp", "auto", "--sigma", 1,
                            "--shard", shard, "--eval-records", 0, "--output", folder)
        words, metrics = [str(word) for word in command], folder / "metrics.jsonl"
        with open(kit.output / kit.part / f"{shard}_killed.log", "w") as log:
            job = subprocess.Popen(words, stdout=log, stderr=log, env=os.environ | {"SHADE_GPU_CHECK": mark}, start_new_session=True)
            while job.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") > 12):
                time.sleep(0.02)
            found = ranks_of(mark)
            victim = max(found, key=lambda pid: -1 if found[pid] is None else found[pid], default=None)
            if job.poll() is not None or victim is None:
                raise RuntimeError(f"{shard}: the run ended before it was killed; see {log.name}")
            os.kill(victim, signal.SIGKILL)
            begin = time.monotonic()
            try:
                status = job.wait(120)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                status = 0
        took = time.monotonic() - begin
        yield check(f"{shard}: end after SIGKILL to rank {found[victim]}", f"status {status} after {took:.1f} s",
                    "not 0, within 20 s", status != 0 and took < 20)  # comm.peer_timeout is 10 s; a launcher takes its time too
        yield check(f"{shard}: processes left", str(len(ranks_of(mark))), "0", not ranks_of(mark))
        before = [json.loads(line) for line in metrics.read_text().splitlines() if line.endswith("}")]
        kit.run(*command)
        after = [json.loads(line) for line in metrics.read_text().splitlines()]
        yield check(f"{shard}: the same command finishes it", f"step {after[-1]['step']}", f"step {steps}", after[-1]["step"] == steps)
        yield check(f"{shard}: epsilon", f"{before[-1]['epsilon']:.4f}, then {after[-1]['epsilon']:.4f}", "never falls",
                    after[-1]["epsilon"] >= before[-1]["epsilon"])


def memory(kit):
    """The device's peak against the CPU's ledger of the same step, which counts every tensor."""
    for dp in ("none", "auto"):
        words = ["--dp", dp, "--num-iter", 2]
        here, there = (kit.bench(*words, ranks=1, device=device)["peak_memory_mb"] for device in (kit.o.device, "cpu"))
        yield at_most(f"{dp}: peak of the device ({here:.0f} MiB) over the CPU's ({there:.0f} MiB)", here / there, 1.25)


def bench(kit):
    """Steps in turns with PyTorch's (FSDP2, DDP) and Opacus' (ghost clipping) on the same ranks. Figures, not checks."""
    peers = PEERS.exists() and not kit.o.launcher
    if not peers:
        yield measured("peers", "not measured on several hosts" if kit.o.launcher else "not installed: tools/bootstrap peers")
    for shard in STRATEGIES if kit.o.ranks > 1 else ("none",):
        for dtype in ("fp32", "bf16"):
            for dp in ("none", "auto"):
                found = kit.bench("--shard", shard, "--dtype", dtype, "--dp", dp, "--num-iter", 5, *(["--peers"] if peers else []))
                value = f"{min(found['times_ms']):.1f} ms, {found['peak_memory_mb']:.0f} MiB"
                if peers:
                    row = found["rows"][0]
                    value += (f"; peer {row['peer_ms']:.1f} ms, {row['peer_mb']:.0f} MiB; ours / peer: time {row['ratio_time']:.2f}, "
                              f"memory {row['ratio_memory']:.2f}")
                yield measured(f"{shard}, {dtype}, {'private' if dp != 'none' else 'not private'}", value)


PARTS = [machine, conformance, verify, noise, parity, sharding, kill, memory, bench]
