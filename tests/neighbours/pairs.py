"""The pairs of neighbouring data sets, as rows of data: D, what is added to it, and the options of the two runs."""
import dataclasses
import json
import random

import models

METHODS = ("materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto")
TYPES = ("fp32", "bf16")
LENGTH = 32  # of texts, in tokens
CLASSES = "a,b,c,d"


@dataclasses.dataclass(frozen=True)
class Pair:
    family: str
    name: str
    model: str
    options: tuple  # of shade train, after those of all pairs
    data: tuple     # records of D (files.write_records)
    added: tuple    # one unit: (position in D, record), ...
    clip: float = 0.25
    crosses: int = 0  # the additional record lifts the sum over this power of two; the clip norm is fitted to it
    units: int = 1    # in `added`; with more than one, the sums must differ by more than the clip norm
    in_ci: bool = False


def words(rng, length):
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxy ") for _ in range(length))


def line(text, **fields):
    return json.dumps({"text": text, **fields})


def texts(seed, number, longest=40):
    rng = random.Random(seed)
    return tuple(line(words(rng, rng.randint(1, longest))) for _ in range(number))


def options(**given):
    out = []
    for name, value in given.items():
        out += ["--" + name.replace("_", "-"), str(value)]
    return tuple(out)


def additions(data, seed):
    """Texts that differ from those of D in what could matter: place, length, being there already."""
    rng, n = random.Random(seed), len(data)
    return {
        "first": ((0, line(words(rng, 20))),),
        "last": ((n, line(words(rng, 20))),),
        "middle": ((n // 2, line(words(rng, 9))),),
        "copy": ((n // 3, data[n // 3]),),
        "copy of the last": ((n, data[-1]),),
        "shortest": ((0, line("x")),),
        "longest": ((n, line(words(rng, 3 * LENGTH))),),
    }


def method_pairs():
    data = texts(1, 24)
    for m, method in enumerate(METHODS):
        for t, dtype in enumerate(TYPES):
            for a, (name, added) in enumerate(additions(data, 2).items()):
                yield Pair("methods", f"{method} {dtype} {name}", "llama", options(dp=method, dtype=dtype, micro_batch=4), data, added,
                           in_ci=m % 2 == t and a == m)


def two_unit_pairs():
    data = texts(1, 24)
    for dtype in TYPES:
        for name in ("first", "copy"):
            yield Pair("two units", f"{name} twice {dtype}", "llama", options(dp="auto", dtype=dtype, micro_batch=4), data,
                       additions(data, 2)[name] * 2, units=2, in_ci=(dtype, name) == ("fp32", "first"))


def accumulation_pairs():
    for micro_batch in (1, 2, 3, 5, 8, 16):
        for dtype in TYPES:
            for number in (micro_batch * 4 - 1, micro_batch * 4):
                data = texts(3, number, 12)
                for name in ("first", "last"):
                    yield Pair("accumulation", f"{number} + 1 in {micro_batch}s {dtype} {name}", "llama",
                               options(dtype=dtype, micro_batch=micro_batch), data, additions(data, 4)[name],
                               in_ci=(micro_batch, dtype, number % micro_batch, name) in ((5, "fp32", 4, "first"), (8, "bf16", 0, "first")))


def rank_pairs():
    data = texts(5, 25)
    for ranks in (2, 3):
        for shard in ("ddp", "zero2", "zero3"):
            for dtype in TYPES:
                for name in ("first", "longest", "copy"):
                    yield Pair("ranks", f"{ranks} {shard} {dtype} {name}", "llama",
                               options(ranks=ranks, shard=shard, dtype=dtype, micro_batch=2), data, additions(data, 6)[name],
                               in_ci=(ranks, shard, dtype) in ((2, "zero3", "fp32"), (3, "zero2", "bf16")) and name == "first")


def label_pairs():
    rng = random.Random(7)
    data = tuple(line(words(rng, rng.randint(1, 30)), label=rng.choice("bc")) for _ in range(20))
    for dtype in TYPES:
        for label in "abcd":  # a and d are new: before and behind those of D
            for at in (0, 20):
                yield Pair("labels", f"{label} at {at} {dtype}", "classifier",
                           options(classes=CLASSES, dtype=dtype, micro_batch=8, clip_style="flat"), data,
                           ((at, line(words(rng, 12), label=label)),), in_ci=dtype == "fp32" and label in "ad" and at == 0)


def user_pairs():
    rng = random.Random(8)
    data = tuple(line(words(rng, rng.randint(1, 30)), user=str(i * 7 % 9)) for i in range(30))
    for dtype in TYPES:
        for user in ("00", "eve", "zz"):
            for places in ((0,), (30,), (0, 11, 30), (0, 5, 10, 15, 20, 25, 30)):
                added = tuple((at, line(words(rng, rng.randint(1, 30)), user=user)) for at in places)
                yield Pair("users", f"{user} with {len(places)} from {places[0]} {dtype}", "llama",
                           options(privacy_unit="user", user_field="user", max_records_per_user=3, dtype=dtype, micro_batch=2), data, added,
                           in_ci=dtype == "fp32" and user == "eve" and len(places) > 1)


def window_pairs():
    """Documents of n bytes take n + 1 positions: D fills its windows, and the added document is one window at the end."""
    rng, length = random.Random(9), 16
    data, positions = [], 0
    while positions % length or len(data) < 20:
        data.append(line(words(rng, rng.randint(1, 40) if len(data) < 20 else length - 1 - positions % length)))
        positions += len(json.loads(data[-1])["text"]) + 1
    same = next((r for r in data if len(json.loads(r)["text"]) == length - 1), line("z" * (length - 1)))
    for ranks in (1, 2, 3):
        for dtype in TYPES:
            for name, record in (("new", line(words(rng, length - 1))), ("one letter", line("y" * (length - 1))), ("copy", same)):
                yield Pair("windows", f"{name} {ranks} ranks {dtype}", "llama",
                           options(packing="packed", privacy_unit="window", seq_length=length, ranks=ranks, dtype=dtype, micro_batch=4),
                           tuple(data), ((len(data), record),), in_ci=(ranks, name) == (1, "new"))


def not_finite_pairs():
    """The byte Z makes a gradient that is not finite."""
    data = texts(10, 18)
    with_some = data[:3] + (line("Z"), line("aZb")) + data[3:]
    for method in ("auto", "ghost", "streaming"):
        for dtype in TYPES:
            for name, of, added in (("NaN first", data, (0, line("Z"))), ("NaN last", data, (18, line("abZ"))),
                                    ("beside NaN", with_some, (4, line("plain"))), ("third NaN", with_some, (0, line("ZZ")))):
                yield Pair("not finite", f"{name} {method} {dtype}", "not_finite", options(dp=method, dtype=dtype, micro_batch=4), of, (added,),
                           in_ci=(method, dtype) == ("auto", "fp32") and name in ("NaN first", "beside NaN"))


def held_out_pairs():
    """A rate that followed from the number of records (100 of them, on a grid of powers of 2^(1/8)) fell from 1/2 to this one
    where 209 follow 208."""
    number, held_out = 208, options(eval_rate=2.0**(-9 / 8), micro_batch=64)
    data = texts(11, number, 10)
    for a, (name, added) in enumerate(additions(data, 12).items()):
        yield Pair("held out", name, "llama", held_out, data, added, in_ci=a < 2)
    rng = random.Random(13)
    users = tuple(line(words(rng, 8), user=str(i % number)) for i in range(300))
    for user in ("eve", "adam", "zoe"):
        yield Pair("held out", f"user {user}", "llama", held_out + options(privacy_unit="user", user_field="user", max_records_per_user=2),
                   users, ((0, line("one more", user=user)), (200, line("and one", user=user))))
    documents = tuple(line(words(rng, 15)) for _ in range(number))
    for i in range(3):
        yield Pair("held out", f"window {i}", "llama", held_out + options(packing="packed", privacy_unit="window", seq_length=16), documents,
                   ((number, line(words(rng, 15))),))


def style_pairs():
    data = texts(14, 20)
    for style in ("per_layer", "group", "automatic", "adaptive"):
        for dtype in TYPES:
            for name in ("first", "shortest", "longest"):
                yield Pair("styles", f"{style} {dtype} {name}", "llama", options(clip_style=style, dtype=dtype, micro_batch=4), data,
                           additions(data, 15)[name], in_ci=style != "adaptive" and dtype == "fp32" and name == "first")


def clip_norm_pairs():
    data = texts(16, 20)
    for clip in (1e-10, 2.0**-20, 2.0**-8, 1.0, 64.0):
        for dtype in TYPES:
            for name in ("first", "copy"):
                yield Pair("clip norms", f"{clip:g} {dtype} {name}", "llama", options(dtype=dtype, micro_batch=4), data, additions(data, 17)[name],
                           clip=clip)


def model_pairs():
    data = texts(18, 20)
    for model in ("qwen2", "qwen3", "mistral"):
        for dtype in TYPES:
            for name in ("first", "longest"):
                yield Pair("models", f"{model} {dtype} {name}", model, options(dtype=dtype, micro_batch=4), data, additions(data, 19)[name],
                           in_ci=(model, dtype, name) == ("qwen2", "fp32", "first"))
    for more in (options(attention="standard"), options(checkpointing="block"), options(padding="max_length"), options(norm_algorithm="width"),
                 options(norm_algorithm="input_length"), options(reduce_once="true", ranks=2), options(lora_rank=2)):
        for name in ("first", "longest"):
            yield Pair("models", f"{' '.join(more)[2:]} {name}", "llama", options(micro_batch=4) + more, data, additions(data, 20)[name])
    images = tuple((f"{'bright' if i % 2 else 'dark'}/{i:02}.png", i) for i in range(16))
    for dtype in TYPES:
        for flip in ("true", "false"):
            for name in ("bright/!.png", "bright/x.png", "dark/x.png"):
                yield Pair("models", f"image {name} flip {flip} {dtype}", "dit",
                           options(classes="bright,dark", flip=flip, dtype=dtype, micro_batch=4), images, ((0, (name, 77)),),
                           in_ci=(dtype, flip, name) == ("fp32", "true", "bright/!.png"))


def crossing_pairs():
    """M records bring the sum just below 2^k, the additional one lifts it above. Then come records of -0.6 spacings of the
    numbers below 2^k, that is -0.3 of those above: added in fp32 one after the other, they count 1 without it and 0 with it."""
    def pair(k, small, ci=False, **more):
        given = {"micro_batch": 1, "ranks": 1, "dp": "auto", "dtype": "fp32"} | more
        # What is added at a time: the samples of a micro-step or, if there is only one, a sample of its product.
        together = given["micro_batch"] * given["ranks"] if given["micro_batch"] < 2**k else 1
        rung = line(models.RUNGS[24 - k + together.bit_length() - 1], label="b")
        data = (line("A", label="a"),) * (2**k - 1) + (rung,) * small
        return Pair("crossing", f"{2**k} + {small} {' '.join(map(str, given.values()))}", "ladder",
                    options(classes="a,b", seq_length=3, **given), data, ((2**k - 1, data[0]),), crosses=k, in_ci=ci)

    for m, method in enumerate(METHODS):
        yield pair(7, 127, dp=method, ci=m % 5 == 0)
        yield pair(8, 255, dp=method, dtype="bf16", ci=method == "auto")
        yield pair(7, 129, dp=method, micro_batch=256, ci=m % 2 == 0)
        yield pair(8, 256, dp=method, micro_batch=512, dtype="bf16", ci=method == "materialize")
        yield pair(9, 512, dp=method, micro_batch=1024)
    strategies = [{"ranks": ranks, "shard": shard} for ranks in (1, 2, 4) for shard in ("none", "ddp", "zero2", "zero3", "hsdp")
                  if (ranks > 1 or shard != "hsdp") and (ranks == 1 or shard != "none")]
    for more in ({"ranks": 2}, {"ranks": 3}, {"micro_batch": 4}, {"micro_batch": 16}, *strategies):
        yield pair(7, 256, ci=more == {"ranks": 2}, **more)
        yield pair(8, 1024, dtype="bf16", **more)
    yield pair(9, 511)
    yield pair(11, 2048)
    yield pair(11, 2048, dtype="bf16")
    yield pair(12, 4096)
    yield pair(12, 4096, micro_batch=16)
    yield pair(12, 4096, ranks=2)


def copy_pairs():
    """Rounding of equal records adds up, and the size of a micro-batch chooses the kernels that compute them."""
    record = texts(22, 1)[0]
    for number in (2, 3, 7, 8, 15, 16, 31, 63, 127, 255):
        for dtype in TYPES:
            yield Pair("copies", f"{number} + 1 {dtype}", "llama", options(dtype=dtype, micro_batch=256), (record,) * number, ((0, record),))


def cliff_pairs():
    """Records at a step of their gradient: what is computed for one must not depend on how many there are."""
    data = tuple(line(byte, label="a") for byte in models.CLIFF_BYTES)
    for begin in (0, 16, 32, 48):
        for number in (2, 3, 7, 10, 15):
            for method in ("auto", "materialize") if number == 15 else ("auto",):
                yield Pair("cliff", f"{number} + 1 from {begin} {method}", "cliff",
                           options(dp=method, classes="a,b", seq_length=3, micro_batch=64), data[begin:begin + number],
                           ((number, data[begin + number]),), clip=models.CLIFF_CLIP, in_ci=(number, begin, method) == (15, 0, "auto"))
    for dtype in TYPES:
        for number, at in ((15, 0), (16, 0), (32, 0), (32, 16), (32, 32)):  # one may become the only record of a micro-batch
            yield Pair("cliff", f"{number} + 1 in 16s at {at} {dtype}", "cliff",
                       options(classes="a,b", seq_length=3, micro_batch=16, dtype=dtype), data[:number], ((at, data[-1]),),
                       clip=models.CLIFF_CLIP)


def random_pairs():
    rng = random.Random(21)
    for case in range(24):
        given = {"dp": rng.choice(METHODS), "dtype": rng.choice(TYPES), "micro_batch": rng.choice((1, 3, 4, 7, 16)),
                 "ranks": rng.choice((1, 1, 2, 3)), "padding": rng.choice(("longest", "max_length")),
                 "clip_style": rng.choice(("flat", "flat", "per_layer", "group", "automatic"))}
        data = texts(100 + case, rng.randint(2, 60), rng.choice((3, 20, 60)))
        model, clip = rng.choice(("llama", "qwen2")), rng.choice((0.01, 0.25))
        for name in rng.sample(sorted(additions(data, case)), 3):
            yield Pair("random", f"{case}: {model} {' '.join(map(str, given.values()))} C {clip}, {len(data)} + 1 {name}", model,
                       options(**given), data, additions(data, case)[name], clip=clip)


FAMILIES = (method_pairs, two_unit_pairs, accumulation_pairs, rank_pairs, label_pairs, user_pairs, window_pairs, not_finite_pairs,
            held_out_pairs, style_pairs, clip_norm_pairs, model_pairs, copy_pairs, crossing_pairs, cliff_pairs, random_pairs)


def all_pairs():
    for family in FAMILIES:
        yield from family()
