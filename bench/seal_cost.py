#!/usr/bin/env python3
"""What sealed messages cost: collectives and training steps of two ranks in two network namespaces, joined by a veth
pair, with and without --comm.seal. Needs root.

Settings alternate, round after round, each in a fresh process group. A row has the best time of both and the geometric
mean over rounds of their ratio with its 95 % interval (Student's t on logarithms).
"""
import argparse
import json
import math
import os
import pathlib
import secrets
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
T95 = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13]
STEPS = {  # a training step of a 4-layer Llama, B samples per rank
    "step, zero3, d=512, T=128, B=2": "--shard zero3 --hidden-dim 512 --seq-length 128 --batch-size 4",
    "step, zero3, d=512, T=512, B=4": "--shard zero3 --hidden-dim 512 --seq-length 512 --batch-size 8",
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: bench/seal_cost.py --rounds 8")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--size", default="64MiB", help="of the collectives' full buffer")
    parser.add_argument("--num-iter", default="5", help="measured repetitions or steps per round")
    parser.add_argument("--dp", default="none", help="clipping method of the training steps")
    parser.add_argument("--shade", default=str(ROOT / "build/release/bin/shade"))
    return parser.parse_args()


class Hosts:
    def __enter__(self):
        a, b = self.names = [f"seal-{side}-{os.getpid()}" for side in "ab"]
        for command in (f"netns add {a}", f"netns add {b}",
                        f"link add va{os.getpid()} netns {a} type veth peer name vb{os.getpid()} netns {b}",
                        f"-n {a} addr add 10.78.0.1/24 dev va{os.getpid()}", f"-n {b} addr add 10.78.0.2/24 dev vb{os.getpid()}",
                        f"-n {a} link set va{os.getpid()} up", f"-n {b} link set vb{os.getpid()} up",
                        f"-n {a} link set lo up", f"-n {b} link set lo up"):
            subprocess.run(["ip", *command.split()], check=True)
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def run(self, command):
        """The result that rank 0 writes as JSON."""
        secret = secrets.token_hex(32)
        with tempfile.NamedTemporaryFile() as out:
            ranks = []
            for rank in (1, 0):
                environment = os.environ | {
                    "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                    "MASTER_ADDR": "10.78.0.1", "MASTER_PORT": "29400", "SHADE_SECRET": secret}
                extra = ["--json", out.name] if rank == 0 else []
                ranks.append(subprocess.Popen(["ip", "netns", "exec", self.names[rank], *command, *extra],
                                              env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
            for rank in ranks:
                words = rank.communicate()[1]
                if rank.returncode:
                    raise SystemExit(f"seal_cost: {' '.join(command)}: {words}")
            return json.loads(pathlib.Path(out.name).read_text())


def row(name, off, on):
    ratios = [math.log(sealed / clear) for clear, sealed in zip(off, on)]
    mean = statistics.mean(ratios)
    half = T95[min(len(ratios) - 1, len(T95) - 1)] * statistics.stdev(ratios) / math.sqrt(len(ratios)) if len(ratios) > 1 else 0
    print(f"| {name} | {1e3 * min(off):.1f} ms | {1e3 * min(on):.1f} ms | "
          f"{math.exp(mean):.2f} [{math.exp(mean - half):.2f}, {math.exp(mean + half):.2f}] |", flush=True)


def main():
    given = options()
    print("| what | clear, best | sealed, best | sealed / clear |\n|---|---|---|---|")
    with Hosts() as hosts:
        times = {}
        for _ in range(given.rounds):
            for seal in ("off", "on"):
                result = hosts.run([given.shade, "comm", "--sizes", given.size, "--num-iter", given.num_iter, "--comm.seal", seal])
                for entry in result["rows"]:
                    times.setdefault(entry["collective"], {}).setdefault(seal, []).append(entry["ours_ms"] / 1e3)
        for name, by_seal in times.items():
            row(f"{name}, {given.size}", by_seal["off"], by_seal["on"])
        for name, words in STEPS.items():
            by_seal = {"off": [], "on": []}
            for _ in range(given.rounds):
                for seal, found in by_seal.items():
                    result = hosts.run([given.shade, "bench", "--model", "llama-nano", "--num-layers", "4", "--num-heads", "8",
                                        "--vocab-size", "8192", "--dp", given.dp, "--threads", "1", "--num-iter", given.num_iter,
                                        "--comm.seal", seal, *words.split()])
                    found.append(min(result["times_ms"]) / 1e3)
            row(name, by_seal["off"], by_seal["on"])


if __name__ == "__main__":
    main()
