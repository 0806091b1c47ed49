"""Small BPE tokenizers of published kinds, and what the `tokenizers` package makes of strings.

usage: make_tokenizers.py --out FOLDER             tokenizer.json and cases.bin for each kind
       make_tokenizers.py cases TOKENIZER_JSON OUT COUNT SEED

cases.bin: for each case the text, its ids and their decoded text, each with its length before it; all numbers are
varints. The length of a decoded text is one more than it is, or 0: it is the text itself. The second form has real texts among its strings: this machine's Debian package index and
the source code of this repository.
"""
import json
import pathlib
import random
import subprocess
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tokenizer_strings as strings

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"\p{N}{1,3}" + REST
QWEN2 = CONTRACTIONS + r"\p{N}" + REST
CHAT = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SPECIAL = {
    "llama3": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "qwen2": CHAT,
    "gpt2": ["<|endoftext|>"],
    "smollm": CHAT,
    "mistral": ["<unk>", "<s>", "</s>"],
    "mistral_v3": ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"],
}
# Not special: one as written, two that are looked for in the normalized text, one of them not in normal form; flags of
# every kind. (None has a letter like \u00e9, which the package decodes as the byte 0xE9; ours decodes an added token as
# it is written.)
PLAIN = {
    "qwen2": [AddedToken("<tool_call>", normalized=False), AddedToken("<think>"), AddedToken("xs\u030cx")],
    "smollm": [AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
               AddedToken("word", single_word=True), AddedToken("<both>", lstrip=True, rstrip=True, single_word=True)],
    "mistral": [AddedToken("<tool>", normalized=False), AddedToken("<think>")],
    "mistral_v3": [AddedToken("<mask>", lstrip=True, normalized=False)],
}
PATTERN = {"llama3": LLAMA3, "qwen2": QWEN2}
BYTE_LEVEL = ("llama3", "qwen2", "gpt2", "smollm")


def corpus():
    rng = random.Random(1)
    for _ in range(300):
        for sentence in strings.SENTENCES:
            words = sentence.split(" ")
            rng.shuffle(words)
            yield " ".join(words)


def special_of(kind):
    return SPECIAL[kind] + [token.content for token in PLAIN.get(kind, [])]


def byte_level(kind):
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind not in PATTERN)
    tokenizer.pre_tokenizer = {
        "gpt2": lambda: cut,
        "smollm": lambda: pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), cut]),
    }.get(kind, lambda: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN[kind]), "isolated"), cut]))()
    tokenizer.decoder = decoders.ByteLevel()
    # Without an alphabet to begin with, bytes that don't occur in the corpus have no token.
    alphabet = [] if kind in ("gpt2", "smollm") else pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    if kind == "llama3":  # words that no merge makes: only ignore_merges finds them
        file = json.loads(tokenizer.to_str())
        vocab = file["model"]["vocab"]
        for sentence in strings.SENTENCES[:8]:
            for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(sentence):
                vocab.setdefault(word, len(vocab))
        tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=True, trim_offsets=False, use_regex=True)
    return tokenizer


def with_byte_fallback(kind):
    """As converted from SentencePiece: characters, and a token <0x..> for every byte of those that have none."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.Metaspace()
    words.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=1500, limit_alphabet=300, show_progress=False))
    trained = json.loads(words.to_str())["model"]
    names = SPECIAL[kind] + [f"<0x{byte:02X}>" for byte in range(256)] + sorted(trained["vocab"], key=trained["vocab"].get)
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [tuple(pair) for pair in trained["merges"]],
                                     unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if kind == "mistral":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    return tokenizer


def train(kind):
    tokenizer = byte_level(kind) if kind in BYTE_LEVEL else with_byte_fallback(kind)
    tokenizer.add_special_tokens(SPECIAL[kind])
    tokenizer.add_tokens(PLAIN.get(kind, []))
    bos = {"llama3": "<|begin_of_text|>", "mistral": "<s>", "mistral_v3": "<s>"}.get(kind)
    if bos:
        template = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
        before = [tokenizer.post_processor] if tokenizer.post_processor else []
        tokenizer.post_processor = processors.Sequence(before + [template])
    file = json.loads(tokenizer.to_str())
    if kind in ("qwen2", "mistral"):  # as older files have them
        file["model"]["merges"] = [" ".join(pair) for pair in file["model"]["merges"]]
    return json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n"


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def words(text):
    raw = text.encode()
    return varint(len(raw)) + raw


def real_texts():
    index = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, errors="replace").stdout
    code = "\n".join(path.read_text() for path in sorted((ROOT / "shade").rglob("*.cpp")))
    return [text for text in (index, code) if text]


def cases(tokenizer, special, count, seed, real=()):
    out = bytearray()
    for begin in range(0, count, 5000):
        texts = [strings.string(seed, i, special, real) for i in range(begin, min(count, begin + 5000))]
        for text, encoding in zip(texts, tokenizer.encode_batch(texts, add_special_tokens=False)):
            decoded = tokenizer.decode(encoding.ids, skip_special_tokens=False)
            out += words(text) + varint(len(encoding.ids)) + b"".join(map(varint, encoding.ids))
            out += b"\0" if decoded == text else varint(len(decoded.encode()) + 1) + decoded.encode()
    return bytes(out)


def main():
    if sys.argv[1] == "--out":
        for kind in SPECIAL:
            folder = pathlib.Path(sys.argv[2]) / f"tokenizer_{kind}"
            folder.mkdir(parents=True, exist_ok=True)
            text = train(kind)
            (folder / "tokenizer.json").write_text(text)
            (folder / "cases.bin").write_bytes(cases(Tokenizer.from_str(text), special_of(kind), 2000, 1))
    else:
        file, out, count, seed = sys.argv[2:]
        tokenizer = Tokenizer.from_file(file)
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        pathlib.Path(out).write_bytes(cases(tokenizer, special, int(count), int(seed), real_texts()))


if __name__ == "__main__":
    main()
