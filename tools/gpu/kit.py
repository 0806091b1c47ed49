"""How the parts of tools/gpu_check start programs, and how they compare what those leave."""
import array
import json
import math
import os
import pathlib
import shlex
import signal
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / ".deps/peers/bin/python"
# What is trained, and what is measured beside the peers, whose models have heads of 64 and a feed-forward of 3 x hidden.
SIZES = {
    "small": {"train": "--hidden-dim 64 --num-layers 2 --num-heads 4 --num-kv-heads 2 --ffn-dim 128 --vocab-size 256 --seq-length 32 "
                       "--batch-size 8",
              "bench": (128, 2, 512, 32, 2), "kill_steps": 60},
    "gpu": {"train": "--hidden-dim 512 --num-layers 4 --num-heads 8 --num-kv-heads 4 --ffn-dim 1536 --vocab-size 4096 --seq-length 512 "
                     "--batch-size 32",
            "bench": (2048, 16, 32000, 2048, 4), "kill_steps": 400},
}
STRATEGIES = ("ddp", "zero2", "zero3")
LIMIT_S = 3600  # of one command


class Kit:
    """One run of the kit: how programs are started, and where their logs go."""

    def __init__(self, options):
        self.o, self.size = options, SIZES[options.size]
        self.shade, self.output = options.shade.resolve(), options.output.resolve()
        self.part, self.count = "", 0

    def on_gpus(self):
        return self.o.device == "cuda" and self.shade.name != "shade_emulated"

    def run(self, *command, ok=True, environment=None):
        """Its output. A status that isn't 0 ends the part if `ok`; else (status, output) is returned."""
        self.count += 1
        log = self.output / self.part / f"{self.count:02}.log"
        words = [str(word) for word in command]
        with open(log, "w") as out:
            out.write(shlex.join(words) + "\n")
            out.flush()
            job = subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, cwd=self.output / self.part,
                                   env=os.environ | (environment or {}), start_new_session=True)
            try:
                status = job.wait(LIMIT_S)
            except BaseException:  # the limit, or the user
                os.killpg(job.pid, signal.SIGKILL)
                raise
        text = log.read_text(errors="replace")
        if not ok:
            return status, text
        if status != 0:
            raise RuntimeError(f"status {status} of {shlex.join(words)}: {text.strip().splitlines()[-1]} ({log})")
        return text

    def words(self, verb, *words, ranks=None, device=None):
        """A command on the device and ranks that are checked, or on this host alone."""
        local = ranks is not None
        start = [] if local or not self.o.launcher else shlex.split(self.o.launcher)
        count = ranks if local else self.o.ranks
        return [*start, self.shade, verb, *words, "--device", device or self.o.device,
                *(["--ranks", count] if count > 1 and not start else [])]

    def bench(self, *words, **where):
        hidden, layers, vocabulary, length, batch = self.size["bench"]
        file = self.output / self.part / f"bench_{self.count + 1:02}.json"
        self.run(*self.words("bench", "--model", "llama3-8b", "--task", "classify", "--hidden-dim", hidden, "--num-layers", layers,
                             "--num-heads", hidden // 64, "--num-kv-heads", hidden // 128, "--ffn-dim", 3 * hidden, "--vocab-size",
                             vocabulary, "--seq-length", length, "--batch-size", batch, "--json", file, *words, **where))
        return json.loads(file.read_text())

    def train(self, name, *words, **where):
        """Losses of each step and the weights at the end, without noise: that of a device is drawn anew at each start."""
        folder = self.output / self.part / name
        subprocess.run(["rm", "-rf", folder], check=True)
        self.run(*self.words("train", "--model", "llama-nano", "--from-scratch", "--task", "lm", "--synthetic", "--records", 1024,
                             *self.size["train"].split(), "--steps", 5, "--log-every", 1, "--optimizer", "sgd", "--lr", 0.1, "--eval-records", 0,
                             "--output", folder / "run", "--export", folder / "model", *words, **where))
        lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
        losses = [line.get("loss", line.get("not_private", {}).get("loss")) for line in lines]
        return losses, weights(folder / "model/model.safetensors")


def weights(path):
    """All numbers of a safetensors file in fp32, by name."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", f"{name} is {entry['dtype']}"
            begin, end = entry["data_offsets"]
            out[name] = array.array("f", data[8 + size + begin:8 + size + end])
    return out


def distance(a, b):
    """The largest difference over the largest number: of losses, and of each weight."""
    for losses, weights_ in (a, b):  # max() would pass over NaN
        if not all(isinstance(x, float) and math.isfinite(x) for x in losses) or not all(all(map(math.isfinite, w)) for w in weights_.values()):
            raise ValueError("a loss or a weight is not finite")
    losses = max(abs(x - y) / abs(y) for x, y in zip(a[0], b[0], strict=True))
    assert a[1].keys() == b[1].keys() and b[1]
    return losses, max(max(abs(x - y) for x, y in zip(a[1][n], b[1][n], strict=True)) / max(map(abs, b[1][n])) for n in b[1])


def check(name, value, mark, passed):
    return {"name": name, "value": value, "mark": mark, "passed": bool(passed)}


def at_most(name, value, mark):
    return check(name, f"{value:.3g}", f"at most {mark:g}", value <= mark)


def measured(name, value):
    return {"name": name, "value": value, "mark": "", "passed": None}
