#!/usr/bin/env python
"""Starts step servers as ranks of one job, and asks them. Run it to see PyTorch's strategies measured in turns.

  python bench/peers/ranks.py --ranks 2 --iterations 5 -- --hidden 1024 --layers 4 --seq 512 --batch 2
  python bench/peers/ranks.py --strategies ddp,ddp:ghost,fsdp2_reshard,fsdp2_reshard:ghost_fsdp -- --hidden 1024 ...
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

SERVER = pathlib.Path(__file__).with_name("step_server.py")


class Ranks:
    """One training job. Ranks sleep between commands."""

    def __init__(self, ranks, arguments):
        self.folder = tempfile.TemporaryDirectory()
        command = [sys.executable, str(SERVER), *arguments, "--store", f"{self.folder.name}/store"]
        common = {"WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        self.servers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                         env=os.environ | common | {"RANK": str(rank)}) for rank in range(ranks)]
        self.ready = self.answers()

    def answers(self):
        lines = [server.stdout.readline() for server in self.servers]
        if not all(lines):
            raise SystemExit(f"rank {lines.index('')} ended without an answer; its message is above")
        return [json.loads(line) for line in lines]

    def ask(self, command):
        for server in self.servers:
            print(command, file=server.stdin, flush=True)
        return self.answers()

    def cpu_seconds(self):
        """CPU time that the ranks have used so far."""
        ticks = 0
        for server in self.servers:
            fields = pathlib.Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self):
        for server in self.servers:
            server.stdin.close()
        for server in self.servers:
            server.wait()
        self.folder.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--strategies", default="ddp,fsdp2_keep,fsdp2_reshard",
                        help="of step_server.py, with commas; a private one with its --dp: ddp:ghost")
    parser.add_argument("server", nargs="*", help="arguments of step_server.py, after --")
    a = parser.parse_args()
    arguments = ["--threads", "1", "--what", "step", *a.server]
    jobs = {}
    for name in a.strategies.split(","):
        strategy, _, dp = name.partition(":")
        jobs[name] = Ranks(a.ranks, [*arguments, "--strategy", strategy, "--dp", dp or "none"])
    try:
        measure(jobs, a.iterations)
    finally:
        for job in jobs.values():
            job.stop()


def foreign_seconds(jobs):
    """CPU time that everything but the jobs has used so far. While they are measured it should stand still."""
    user, nice, system = map(int, pathlib.Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - sum(job.cpu_seconds() for job in jobs.values())


def measure(jobs, iterations):
    """Steps in turns: the machine's moods meet all strategies alike."""
    times, losses, asleep = ({name: [] for name in jobs} for _ in range(3))
    began, foreign = time.perf_counter(), foreign_seconds(jobs)
    for _ in range(iterations):
        for name, job in jobs.items():
            others = {other: jobs[other].cpu_seconds() for other in jobs if other != name}
            answers = job.ask("run")
            times[name].append(max(answer["ms"] for answer in answers))
            losses[name] = [answer["loss"] for answer in answers]
            for other, before in others.items():
                asleep[other].append((jobs[other].cpu_seconds() - before) / times[name][-1] * 1000)
    share = (foreign_seconds(jobs) - foreign) / (time.perf_counter() - began) / os.cpu_count()
    print(f"Meanwhile other programs used {share:.0%} of the machine.")
    for name, job in jobs.items():
        memory = job.ask("memory")
        peak, base = (max(answer[key] for answer in memory) for key in ("peak_mb", "base_mb"))
        print(f"{name:24} {job.ready[0]['params'] / 1e6:.1f} M parameters   median {statistics.median(times[name]):6.0f} ms"
              f" ({min(times[name]):.0f} to {max(times[name]):.0f})   peak {peak:7.1f} MB, of which base {base:7.1f} MB   losses "
              f"{' '.join(f'{loss:.5f}' for loss in losses[name])}   asleep it uses {max(asleep[name], default=0):.1%} of a core")


if __name__ == "__main__":
    main()
