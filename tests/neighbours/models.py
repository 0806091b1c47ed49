"""The models of the test of neighbours: random weights made by the program, some of them replaced by numbers of ours."""
import array
import json
import math
import random

import files

_SMALL = "--num-layers 1 --hidden-dim 16 --num-heads 2 --num-kv-heads 1 --ffn-dim 16 --vocab-size 260"
_CLASSIFIER = "--model llama-nano --task classify --num-layers 1 --num-heads 1 --num-kv-heads 1 --ffn-dim 4 --vocab-size 260 --num-classes 2"
MODELS = {  # options of shade train
    "llama": f"--model llama-nano --task lm {_SMALL}",
    "qwen2": f"--model qwen2-nano --task lm {_SMALL}",
    "qwen3": f"--model qwen3-nano --task lm {_SMALL}",
    "mistral": f"--model mistral-nano --task lm {_SMALL}",
    "classifier": f"--model llama-nano --task classify {_SMALL} --num-classes 4",
    "not_finite": f"--model llama-nano --task lm {_SMALL}",
    "ladder": f"{_CLASSIFIER} --hidden-dim 4",
    "cliff": f"{_CLASSIFIER} --hidden-dim 64",
    "dit": "--model dit-nano --num-layers 1 --num-classes 2",
}

# Bytes of the ladder whose gradient is 0.6 * 2^-j in each of two weights.
RUNGS = {j: chr(ord("a") + j - 8) for j in range(8, 26)}
# Bytes of the cliff, and a clip norm below the norms of its gradients.
CLIFF_BYTES = [chr(c) for c in range(33, 127) if chr(c) not in '"\\'][:64]
CLIFF_CLIP = 2.0**-7


def edit(folder, change, epsilon):
    """change(weights, shapes); epsilon is that of the norms."""
    path = folder / "model.safetensors"
    weights, shapes = files.read_weights(path), files.shapes_of(path)
    change(weights, shapes)
    files.write_weights(path, weights, shapes)
    config = json.loads((folder / "config.json").read_text())
    config["rms_norm_eps"] = epsilon
    (folder / "config.json").write_text(json.dumps(config))


def set_row(weights, byte, values):
    begin = ord(byte) * len(values)
    weights["model.embed_tokens.weight"][begin:begin + len(values)] = array.array("f", values)


def make_not_finite(folder):
    """The byte Z is a row of zeros, which a norm without epsilon divides by zero."""
    def change(weights, shapes):
        set_row(weights, "Z", [0.0] * shapes["model.embed_tokens.weight"][1])
    edit(folder, change, epsilon=1e-60)


def pass_on(weights, width, gain):
    """The last of 3 positions, [start] byte [end], gets a third of what the byte's norm gives; all else is 0."""
    for name, values in weights.items():
        weights[name] = array.array("f", bytes(4 * len(values)))
        if "norm" in name:
            weights[name] = array.array("f", [gain if name == "model.norm.weight" else 1.0] * len(values))
        if "v_proj" in name or "o_proj" in name:
            for i in range(width):
                weights[name][i * width + i] = 1.0


def make_ladder(folder):
    """Gradients that are known numbers. The head is 0, so that its own gradient, (probability - label) x hidden state, is
    the only one: (-v, v) for class a and (v, -v) for class b, where v is large for the byte A."""
    gain = 64.0
    def change(weights, _):
        pass_on(weights, 4, gain)
        set_row(weights, "A", [100.0, 0, 0, 0])
        for j, byte in RUNGS.items():  # the norms change nothing that is small; then a third of it, half of the gain
            set_row(weights, byte, [0.6 * 2.0**-j * 3 * 2 / gain, 0, 0, 0])
    edit(folder, change, epsilon=1.0)


def make_cliff(folder):
    """Each byte's logits differ by 24 log 2: the sum of exponentials, 1 + 2^-24, is a tie of fp32. Rounded to 1 the gradient
    of class a is 0, otherwise it is twice that of class b. The last bit of a logit decides, and the clip norm makes both as
    long. The gain is large so that the gradients are, although probabilities differ from labels by 2^-24."""
    width, gain = 64, 2.0**20
    rng = random.Random(1)
    head = [[rng.gauss(0, 1) / gain for _ in range(width)] for _ in range(2)]
    gap = [a - b for a, b in zip(*head)]

    def normed(x):
        size = math.sqrt(sum(v * v for v in x) / width + 1)
        return [v / size for v in x]

    def change(weights, _):
        pass_on(weights, width, gain)
        weights["score.weight"] = array.array("f", head[0] + head[1])
        for byte in CLIFF_BYTES:
            direction = [math.copysign(rng.uniform(0.5, 1.5), g) for g in gap]
            low, high = 0.0, 100.0
            for _ in range(80):
                middle = (low + high) / 2
                hidden = normed([v / 3 for v in normed([middle * d for d in direction])])
                low, high = (middle, high) if gain * sum(g * h for g, h in zip(gap, hidden)) < 24 * math.log(2) else (low, middle)
            set_row(weights, byte, [low * d for d in direction])
    edit(folder, change, epsilon=1.0)


EDITED = {"ladder": make_ladder, "cliff": make_cliff, "not_finite": make_not_finite}
