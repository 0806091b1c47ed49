#!/usr/bin/env python3
"""What privacy costs: each method beside the non-private step, and beside Opacus.

Every figure comes from a fresh process group. Methods take turns, round after round; a method's time is its best step
over all rounds, and (second column) the median over rounds of its median step over the baseline's of the same round.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
METHODS = ["none", "auto", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming"]
SHAPES = ["512x128", "512x512", "512x2048", "1024x512"]


def options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: bench/private_cost.py cost --shapes 512x512 --methods none,auto --rounds 3 --json cost.json")
    parser.add_argument("what", choices=["cost", "opacus", "growth"],
                        help="cost: methods against none; opacus: auto against ghost and ghost_fsdp, in turns; growth: "
                             "norm time and memory over the sequence length")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="hidden size x sequence length (default %(default)s)")
    parser.add_argument("--methods", default=",".join(METHODS), help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--num-iter", type=int, default=4, help="measured steps a round")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=2, help="samples a rank")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seq", default="512,1024,2048,4096,8192", help="growth: sequence lengths")
    parser.add_argument("--shade", default=str(ROOT / "build/release/bin/shade"))
    parser.add_argument("--json", help="write rows here")
    return parser.parse_args()


def sizes(hidden):
    return {"--hidden-dim": hidden, "--num-heads": hidden // 64, "--num-kv-heads": max(1, hidden // 128),
            "--ffn-dim": 3 * hidden, "--vocab-size": 8192}


def bench(o, hidden, seq, method, shard="zero3", ranks=None, batch=None, extra=()):
    ranks = ranks or o.ranks
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        words = [o.shade, "bench", "--model", "llama3-8b", "--task", "classify", "--num-layers", o.layers,
                 "--seq-length", seq, "--batch-size", batch or o.batch, "--num-iter", o.num_iter, "--threads", 1,
                 "--ranks", ranks, "--shard", shard if ranks > 1 else "none", "--dp", method, "--json", out.name, *extra]
        for name, value in sizes(hidden).items():
            words += [name, value]
        done = subprocess.run([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}\nfailed: {done.stderr[-2000:]}")
        return json.load(open(out.name))


def predicted(hidden, seq, method, tile=128):
    """Products of one block, relative to the non-private step: linear layers by formula, attention as it is."""
    linears = [(hidden, hidden), (hidden, hidden // 2), (hidden, hidden // 2), (hidden, hidden),
               (hidden, 3 * hidden), (hidden, 3 * hidden), (3 * hidden, hidden)]
    attention = 3 * 2 * seq * seq * hidden  # forward 2 T^2 d (causal), backward twice that
    tiles = -(-seq // tile)
    total = base = attention
    for d, p in linears:
        gram = seq * seq * (p + d) * (tiles + 1) / tiles
        whole = 2 * seq * p * d
        base += 3 * whole
        total += {"none": 3 * whole, "materialize": 3 * whole, "streaming": 3 * whole, "ghost": 4 * whole + gram,
                  "flash": 5 * whole, "bookkeeping": 3 * whole + gram, "flash_bookkeeping": 4 * whole,
                  "auto": 3 * whole + min(gram, whole if p * d > seq * (p + d) else 0)}[method]
    if method in ("ghost", "flash"):
        total += attention * 2 / 3  # a second backward
    return total / base


def load():
    return os.getloadavg()[0]


def cost(o):
    rows = []
    methods = o.methods.split(",")
    for shape in o.shapes.split(","):
        hidden, seq = map(int, shape.split("x"))
        runs = {m: [] for m in methods}
        for round_ in range(o.rounds):
            for method in methods:
                print(f"\r{shape} round {round_ + 1} of {o.rounds}: {method:20s}", end="", file=sys.stderr, flush=True)
                runs[method].append(bench(o, hidden, seq, method))
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
        base = runs["none"]
        best = {m: min(min(r["times_ms"]) for r in rs) for m, rs in runs.items()}
        for m in methods:
            turns = statistics.median(statistics.median(r["times_ms"]) / statistics.median(b["times_ms"])
                                      for r, b in zip(runs[m], base))
            memory = max(r["peak_memory_mb"] for r in runs[m])
            base_memory = max(r["peak_memory_mb"] for r in base)
            rows.append({"work": f"llama d={hidden} T={seq} L={o.layers} B={o.batch}x{o.ranks} zero3 {m}", "method": m,
                         "ours_ms": best[m], "none_ms": best["none"], "ratio_time": best[m] / best["none"],
                         "ratio_time_median": turns, "ratio_flops": predicted(hidden, seq, m), "ours_mb": memory,
                         "none_mb": base_memory, "ratio_memory": memory / base_memory,
                         "wire_bytes": runs[m][0]["communication"]["bytes"], "load": load()})
            r = rows[-1]
            print(f"{shape:9s} {m:18s} {r['ours_ms']:7.0f} ms  {r['ratio_time']:.2f}x best, {turns:.2f}x median, "
                  f"{r['ratio_flops']:.2f}x by FLOPs   {memory:6.0f} MiB {r['ratio_memory']:.2f}x", flush=True)
    return rows


def opacus(o):
    rows = []
    for shape in o.shapes.split(","):
        hidden, seq = map(int, shape.split("x"))
        for shard, name in (("ddp", "ghost"), ("zero3", "ghost_fsdp")):
            r = bench(o, hidden, seq, "auto", shard, extra=["--peers"])
            turns = statistics.median(a / b for a, b in zip(r["times_ms"], r["peer_times_ms"]))
            row = r["rows"][0] | {"peer": "Opacus " + name, "ratio_time_median": turns, "load": load()}
            rows.append(row)
            print(f"{shape:9s} auto {shard:6s} {row['ours_ms']:6.0f} ms {row['ours_mb']:6.0f} MiB   Opacus {name:10s} "
                  f"{row['peer_ms']:6.0f} ms {row['peer_mb']:6.0f} MiB   {1 / row['ratio_time']:.2f}x faster "
                  f"(median of pairs {1 / turns:.2f}x), {row['ratio_memory']:.2f}x memory", flush=True)
    return rows


def slope(points):
    import math
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / sum((x - mx) ** 2 for x in xs)


def growth(o):
    rows = []
    hidden, o.layers = 256, 2
    for batch in (1, 2):
        base = {}
        for method in ["none", "flash", "ghost"]:
            times, memory = [], []
            for seq in map(int, o.seq.split(",")):
                runs = [bench(o, hidden, seq, method, ranks=1, batch=batch) for _ in range(o.rounds)]
                peak = runs[0]["peak_memory_mb"]
                if method == "none":
                    base[seq] = peak
                    continue
                times.append((seq, min(r["phases_ms"]["norm"] for r in runs)))
                memory.append((seq, max(peak - base[seq], 1e-3)))
            if method == "none":
                continue
            row = {"method": method, "batch": batch, "norm_ms": times, "extra_mb": memory, "time_exponent": slope(times),
                   "memory_exponent": slope(memory)}
            rows.append(row)
            print(f"B={batch} {method:6s} norm time ~ T^{row['time_exponent']:.2f}: " +
                  ", ".join(f"{t:.1f} ms" for _, t in times) +
                  f"; extra memory ~ T^{row['memory_exponent']:.2f}: " + ", ".join(f"{m:.1f} MiB" for _, m in memory),
                  flush=True)
    return rows


def main():
    o = options()
    rows = {"cost": cost, "opacus": opacus, "growth": growth}[o.what](o)
    if o.json:
        json.dump({"rows": rows}, open(o.json, "w"), indent=1)


if __name__ == "__main__":
    main()
