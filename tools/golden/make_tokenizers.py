"""Small byte-level BPE tokenizers of the kinds of Llama 3 and Qwen2, and what the `tokenizers` package makes of strings.

usage: make_tokenizers.py --out FOLDER             tokenizer.json and cases.bin for each kind
       make_tokenizers.py cases TOKENIZER_JSON OUT COUNT SEED

cases.bin: for each case the text, its ids and their decoded text (empty: the text itself), each with its length before
it; all numbers are varints.
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import tokenizer_strings as strings

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"\p{N}{1,3}" + REST
QWEN2 = CONTRACTIONS + r"\p{N}" + REST
SPECIAL = {
    "llama3": ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
    "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
}
# Not special: one as written, two that are looked for in the normalized text, one of them not in normal form. (None has
# a letter like \u00e9, which the package decodes as the byte 0xE9; ours decodes an added token as it is written.)
PLAIN = {"llama3": [], "qwen2": [("<tool_call>", False), ("<think>", True), ("xs\u030cx", True)]}


def corpus():
    rng = random.Random(1)
    for _ in range(300):
        for sentence in strings.SENTENCES:
            words = sentence.split(" ")
            rng.shuffle(words)
            yield " ".join(words)


def special_of(kind):
    return SPECIAL[kind] + [content for content, _ in PLAIN[kind]]


def train(kind):
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    pattern = Regex(LLAMA3 if kind == "llama3" else QWEN2)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    if kind == "llama3":  # words that no merge makes: only ignore_merges finds them
        file = json.loads(tokenizer.to_str())
        vocab = file["model"]["vocab"]
        for sentence in strings.SENTENCES[:8]:
            for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(sentence):
                vocab.setdefault(word, len(vocab))
        tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.add_special_tokens(SPECIAL[kind])
    for content, normalized in PLAIN[kind]:
        tokenizer.add_tokens([AddedToken(content, normalized=normalized)])
    byte_level = processors.ByteLevel(add_prefix_space=True, trim_offsets=False, use_regex=True)
    tokenizer.post_processor = byte_level
    if kind == "llama3":
        bos = SPECIAL[kind][0]
        template = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, tokenizer.token_to_id(bos))])
        tokenizer.post_processor = processors.Sequence([byte_level, template])
    file = json.loads(tokenizer.to_str())
    if kind == "qwen2":  # as older files have them
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


def cases(tokenizer, special, count, seed):
    out = bytearray()
    for begin in range(0, count, 5000):
        texts = [strings.string(seed, i, special) for i in range(begin, min(count, begin + 5000))]
        for text, encoding in zip(texts, tokenizer.encode_batch(texts, add_special_tokens=False)):
            decoded = tokenizer.decode(encoding.ids, skip_special_tokens=False)
            out += words(text) + varint(len(encoding.ids)) + b"".join(map(varint, encoding.ids))
            out += words("" if decoded == text else decoded)
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
        pathlib.Path(out).write_bytes(cases(tokenizer, special, int(count), int(seed)))


if __name__ == "__main__":
    main()
