#!/usr/bin/env python3
"""Published runs compared with plans: every run of bench/published.toml, planned with its settings.

  bench/published.py build/release/bin/shade --output docs/results/planning
  bench/published.py build/release/bin/shade --only "mpt-7b 2048" --output results     # rows whose words contain it

Writes published.md and published.json; with --only what was not planned again stays as it is in published.json.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import tomllib

DATA = pathlib.Path(__file__).with_suffix(".toml")
FIELDS = ["gpu", "model", "length", "gpus", "batch", "accum", "checkpointing", "strategy", "tokens", "memory", "reason"]
GIB = 2**30
LARGE = 10  # %, from which a difference is explained
TRAFFIC = 5  # % of the step: runs below it hardly depend on the compute lost to collectives
UNHIDDEN = 0.999  # share of the compute rate that a collective takes where nothing of it is hidden


def points(data):
    for name, source in data["source"].items():
        for row in source["rows"]:
            yield dict(zip(FIELDS, row)) | {"source": name}


def name_of(point):
    return "{source} {model} {length} {gpus} {gpu} {batch} {accum} {checkpointing} {strategy}".format(**point)


def words_of(data, point, checkpointing):
    source = data["source"][point["source"]]
    return (f"{data['models'][point['model']]} --task lm --dp none --dtype bf16 --seq {point['length']} "
            f"--batch-size {point['batch']} --grad-accum {point['accum']} --ranks {point['gpus']} "
            f"--shard {point['strategy']} --checkpointing {checkpointing} {source.get('options', '')}").split()


def plan(shade, words, profile):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "plan.json"
        if isinstance(profile, dict):
            file = pathlib.Path(folder) / "profile.json"
            file.write_text(json.dumps(profile))
            profile = str(file)
        command = [shade, "plan", *words, "--device-profile", profile, "--json", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout[-500:]}{done.stderr[-500:]}")
        return json.loads(out.read_text())


class Profiles:
    """The program's own profiles, with the changes of a source."""

    def __init__(self, shade, contention=None):
        self.shade, self.contention, self.known = shade, contention, {}

    def get(self, gpu, changes):
        if gpu not in self.known:
            words = ["--model", "linear-nano", "--dp", "none"]
            self.known[gpu] = json.dumps(plan(self.shade, words, gpu)["device"])
        profile = json.loads(self.known[gpu])
        if self.contention is not None:
            profile["contention"] = self.contention
        if "attention" in changes:
            profile["attention"]["per_second"] *= changes["attention"]
        if "memory_bytes" in changes:
            profile["memory_bytes"] = changes["memory_bytes"]
        if "memory_spec" in changes:
            share = changes["memory_spec"] / profile["memory_spec"]
            for rate in ("elementwise", "copies"):
                profile[rate]["per_second"] *= share
            profile["memory_spec"] = changes["memory_spec"]
        return profile


def figures(result, point):
    row = result["rows"][0]
    step = row["time"]["step_ms"]
    shares = {work: round(100 * ms / step, 1) for work, ms in row["time"]["work_ms"].items()}
    shares |= {key: round(100 * row["time"][f"{key}_ms"] / step, 1) for key in ("exposed", "idle", "communication")}
    return {"tokens": row["tokens_per_second"] / point["gpus"], "tensors_gib": row["peak_memory_mb"] / 1024,
            "reserved_gib": row["reserved_memory_mb"] / 1024, "shares": shares, "parameters": row["parameters"]}


def predict(shade, data, point, profiles):
    profile = profiles.get(point["gpu"], data["source"][point["source"]].get("profile", {}))
    kinds = ["block", "none"] if point["checkpointing"] == "selective" else [point["checkpointing"]]
    ends = [figures(plan(shade, words_of(data, point, kind), profile), point) for kind in kinds]
    out = point | {"ends": ends, "commands": [" ".join(words_of(data, point, kind)) for kind in kinds]}
    if point["gpus"] > 1 and abs(difference(out)) > LARGE:
        profile["contention"] = UNHIDDEN
        out["unhidden_tokens"] = figures(plan(shade, words_of(data, point, kinds[0]), profile), point)["tokens"]
    return out


def away(figure, ends):
    """In % of the published figure: the prediction, or the nearest end of a range that the figure is outside of."""
    low, high = min(ends), max(ends)
    nearest = min(max(figure, low), high) if len(ends) > 1 else low
    return 100 * (nearest / figure - 1)


def difference(row):
    return away(row["tokens"], [end["tokens"] for end in row["ends"]])


def deepspeed_gib(row, data):
    """estimate_zero3_model_states_mem_needs without offload: 18 bytes per parameter and rank, 4 of the largest layer."""
    words = data["models"][row["model"]].split()
    options = dict(zip(words[::2], words[1::2]))
    vocabulary = int(options.get("--vocab-size", 128256))
    width = int(options.get("--hidden-dim", 4096))
    return (18 * row["ends"][0]["parameters"] / row["gpus"] + 4 * vocabulary * width) / GIB


def number(values, form):
    return " to ".join(format(v, form) for v in sorted(values))


def bound_by(row):
    shares = row["ends"][0]["shares"]
    parts = [(shares.get(k, 0), k) for k in ("products", "attention", "passes", "copies", "exposed", "idle")]
    return ", ".join(f"{k} {v:.0f}" for v, k in sorted(parts, reverse=True) if v >= 5)


def run_of(row):
    samples = f"{row['batch']} x {row['accum']}" if row["accum"] > 1 else f"{row['batch']}"
    return f"{row['model']}, {row['gpus']} {row['gpu']}, T {row['length']}, {samples}, {row['strategy']}, {row['checkpointing']}"


def reason_of(row, data):
    if abs(difference(row)) <= LARGE:
        return ""
    text = data["reasons"].get(row["reason"], "not explained")
    if "unhidden_tokens" in row and row["reason"] == "overlap":
        text += f": {row['unhidden_tokens']:,.0f} if none is hidden"
    return text


def time_table(rows, data):
    yield "| run | published | predicted | difference | share of the predicted step, % | traffic, % | reserved GiB | reason |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        ends = row["ends"]
        yield (f"| {run_of(row)} | {row['tokens']:,} | {number([e['tokens'] for e in ends], ',.0f')} | "
               f"{difference(row):+.1f} % | {bound_by(row)} | {ends[0]['shares']['communication']:.0f} | "
               f"{number([e['reserved_gib'] for e in ends], '.1f')} | {reason_of(row, data)} |")


def memory_table(rows, data):
    yield "| run | published GiB | predicted, reserved | of which tensors | difference | DeepSpeed's estimate | difference |"
    yield "|---|---|---|---|---|---|---|"
    for row in (row for row in rows if row["memory"]):
        ends, peer = row["ends"], deepspeed_gib(row, data)
        yield (f"| {run_of(row)} | {row['memory']} | {number([e['reserved_gib'] for e in ends], '.1f')} | "
               f"{number([e['tensors_gib'] for e in ends], '.1f')} | "
               f"{away(row['memory'], [e['reserved_gib'] for e in ends]):+.0f} % | {peer:.1f} | "
               f"{100 * (peer / row['memory'] - 1):+.0f} % |")


def scaling_table(shade, data, profiles):
    """Bytes per parameter that scale with the shard: the same run on 8 and on 128 ranks."""
    yield "| | 8 ranks, GiB | 128 ranks, GiB | bytes per parameter |"
    yield "|---|---|---|---|"
    at_8, at_128 = [p for p in points(data) if p["source"] == "torchtitan-h100"]
    saved = 1 / at_8["gpus"] - 1 / at_128["gpus"]
    for kind in ("none", "block"):
        ends = [figures(plan(shade, words_of(data, p, kind), profiles.get(p["gpu"], {})), p) for p in (at_8, at_128)]
        for key, what in (("tensors_gib", "tensors"), ("reserved_gib", "reserved")):
            large, small = (end[key] for end in ends)
            scaling = (large - small) * GIB / (ends[0]["parameters"] * saved)
            yield f"| predicted, checkpointing {kind}, {what} | {large:.1f} | {small:.1f} | {scaling:.1f} |"
    scaling = (at_8["memory"] - at_128["memory"]) * GIB / (ends[0]["parameters"] * saved)
    yield f"| published, selective | {at_8['memory']} | {at_128['memory']} | {scaling:.1f} |"


def summary(rows):
    yield "| runs | number | within 10 % | median of the absolute difference | mean difference | largest |"
    yield "|---|---|---|---|---|---|"
    little = [row for row in rows if row["ends"][0]["shares"]["communication"] < TRAFFIC]
    groups = {f"traffic below {TRAFFIC} % of the step": little,
              f"traffic from {TRAFFIC} %": [row for row in rows if row not in little], "all": rows}
    groups |= {gpu: [r for r in rows if r["gpu"] == gpu] for gpu in sorted({r["gpu"] for r in rows})}
    for name, group in groups.items():
        if not group:
            continue
        found = [difference(row) for row in group]
        within = sum(abs(d) <= LARGE for d in found)
        yield (f"| {name} | {len(group)} | {within} | {statistics.median(abs(d) for d in found):.1f} % | "
               f"{statistics.mean(found):+.1f} % | {max(found, key=abs):+.1f} % |")


def page(rows, data, scaling):
    text = (DATA.parent / "published_page.txt").read_text()
    sources = [f"- **{name}** ([source]({s['page']})): {s['what']}." +
               (f" Device profile: {s['profile']['why']}." if "profile" in s else "") for name, s in data["source"].items()]
    excluded = ["| points | why |", "|---|---|"] + [f"| {e['what']} | {e['why']} |" for e in data["excluded"]]
    for key, lines in {"SUMMARY": summary(rows), "SOURCES": sources, "TIME": time_table(rows, data),
                       "MEMORY": memory_table(rows, data), "SCALING": scaling, "EXCLUDED": excluded}.items():
        text = text.replace(f"@{key}@", "\n".join(lines))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shade")
    parser.add_argument("--only", default="")
    parser.add_argument("--contention", type=float, help="in place of the profiles' own")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    data = tomllib.loads(DATA.read_text())
    profiles = Profiles(options.shade, options.contention)
    file = options.output / "published.json"
    kept = {name_of(row): row for row in json.loads(file.read_text())["rows"]} if options.only and file.exists() else {}
    rows = []
    for point in points(data):
        name = name_of(point)
        if name in kept and options.only not in name:
            rows.append(kept[name] | point)
        elif options.only in name:
            rows.append(predict(options.shade, data, point, profiles))
            print(f"{difference(rows[-1]):+6.1f} %  {name}", flush=True)
    scaling = list(scaling_table(options.shade, data, profiles))
    options.output.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    (options.output / "published.md").write_text(page(rows, data, scaling))


if __name__ == "__main__":
    main()
