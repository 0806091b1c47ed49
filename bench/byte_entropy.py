#!/usr/bin/env python3
"""Nats a byte of a folder's records (docs/data.md) by how often each byte occurs: the loss of a model that knows frequencies and
nothing of what came before.

usage: bench/byte_entropy.py FOLDER [FIRST]      FIRST: only so many bytes of each record
"""
import collections
import json
import math
import pathlib
import sys


def texts(folder):
    for path in sorted(folder.rglob("*")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        if path.suffix == ".txt":
            yield path.read_text()
        elif path.suffix == ".jsonl":
            yield from (json.loads(line)["text"] for line in path.read_text().splitlines())
        elif path.suffix == ".json":
            records = json.loads(path.read_text())
            yield from (record["text"] for record in (records if isinstance(records, list) else [records]))


def main(folder, first=None):
    counts, records = collections.Counter(), 0
    for text in texts(pathlib.Path(folder)):
        counts.update(text.encode()[: int(first) if first else None])
        records += 1
    total = sum(counts.values())
    nats = -sum(n / total * math.log(n / total) for n in counts.values())
    print(f"{records} records, {total} bytes, {len(counts)} different: {nats:.4f} nats a byte")


if __name__ == "__main__":
    main(*sys.argv[1:])
