"""The runs that bench/plan_error.py compares with their plans: a family and the words that plan and bench share."""

METHODS = ["none", "materialize", "ghost", "flash", "bookkeeping", "flash_bookkeeping", "streaming", "auto"]

SMALL = "--hidden-dim 256 --num-layers 4 --num-heads 4 --num-kv-heads 2 --ffn-dim 768 --vocab-size 4096"
SMALL_FAMILIES = {
    "llama": f"--model llama3-8b --task lm --seq 256 --batch-size 2 {SMALL}",
    "llama classify": f"--model llama3-8b --task classify --seq 512 --batch-size 2 {SMALL}",
    "qwen2": f"--model qwen2-1.5b --task lm --seq 256 --batch-size 3 {SMALL}",
    "dit": "--model dit-s --hidden-dim 192 --num-layers 3 --num-heads 3 --batch-size 4",
    "linear": "--model linear --hidden-dim 512 --num-layers 6 --batch-size 16",
}

# Wide and shallow: steps of more than 200 ms on two cores.
WIDE = "--hidden-dim 768 --num-layers 2 --num-heads 12 --num-kv-heads 4 --ffn-dim 2048 --vocab-size 4096"
WIDE_FAMILIES = {
    "llama": f"--model llama3-8b --task lm --seq 256 --batch-size 2 {WIDE}",
    "llama classify": f"--model llama3-8b --task classify --seq 512 --batch-size 2 {WIDE}",
    "qwen2": f"--model qwen2-1.5b --task lm --seq 512 --batch-size 1 {WIDE}",
    "dit": "--model dit-s --hidden-dim 512 --num-layers 3 --num-heads 8 --batch-size 4",
    "linear": "--model linear --hidden-dim 1024 --num-layers 8 --batch-size 1024",
}
WIDEST = "--model llama3-8b --task lm --seq 512 --batch-size 1 --hidden-dim 1024 --num-layers 2 --num-heads 16 --num-kv-heads 8 --ffn-dim 2816 --vocab-size 4096"


def memory_cases():
    families = SMALL_FAMILIES
    for family, words in families.items():
        for dp in METHODS:
            yield family, f"{words} --dp {dp} --ranks 1"
    for family, words in families.items():
        for shard in ["ddp", "zero2", "zero3"]:
            for dp in ["none", "flash", "auto"]:
                yield family, f"{words} --dp {dp} --ranks 2 --shard {shard}"
    for family in ["llama", "qwen2", "dit"]:
        for dp in ["none", "ghost", "flash_bookkeeping", "auto"]:
            yield family, f"{families[family]} --dp {dp} --ranks 1 --dtype bf16"
        for dp in ["none", "auto"]:
            yield family, f"{families[family]} --dp {dp} --ranks 1 --checkpointing block"
            yield family, f"{families[family]} --dp {dp} --ranks 2 --shard zero3 --dtype bf16"
    for family in ["llama", "llama classify", "qwen2"]:
        for dp in ["none", "flash", "auto"]:
            yield family, f"{families[family]} --dp {dp} --ranks 1 --lora-rank 8"
    for dp in ["none", "flash", "auto"]:
        yield "llama", f"{families['llama']} --dp {dp} --ranks 4 --shard hsdp --replicate 2"
        yield "llama", f"{families['llama']} --dp {dp} --ranks 2 --shard zero3 --grad-accum 3"
        yield "llama", f"{families['llama']} --dp {dp} --ranks 4 --shard zero3 --checkpointing block"


def time_cases():
    families = WIDE_FAMILIES
    for family, words in families.items():
        for dp in ["none", "flash", "flash_bookkeeping", "auto"]:
            yield family, f"{words} --dp {dp} --ranks 1"
    for family in ["llama", "qwen2", "dit", "linear"]:
        for shard, dp in [("ddp", "none"), ("zero2", "flash"), ("zero3", "auto")]:
            yield family, f"{families[family]} --dp {dp} --ranks 2 --shard {shard}"
    for family in ["llama", "dit"]:
        for dp in ["none", "auto"]:
            yield family, f"{families[family]} --dp {dp} --ranks 1 --dtype bf16"
            yield family, f"{families[family]} --dp {dp} --ranks 1 --checkpointing block"
    for family in ["llama", "llama classify"]:
        for dp in ["none", "flash"]:
            yield family, f"{families[family]} --dp {dp} --ranks 1 --lora-rank 16"
    for ranks in ["1", "2 --shard zero3"]:
        for dp in ["none", "auto"]:
            yield "llama", f"{WIDEST} --dp {dp} --ranks {ranks}"


def settings(words):
    """The words without those of the model and its sizes, in short."""
    for family in [*SMALL_FAMILIES.values(), *WIDE_FAMILIES.values()]:
        if words.startswith(family + " "):
            return words[len(family) + 1:]
    return words.replace(WIDEST, "hidden 1024")


def ranks(words):
    return int(words.split("--ranks ")[1].split()[0])
