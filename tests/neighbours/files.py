"""Files of the test of neighbours: weights (safetensors), records (JSON lines) and images (PNG), by the standard library."""
import array
import json
import pathlib
import random
import struct
import zlib


def read_weights(path):
    """{name: array of fp32}."""
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    out = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{path}: {name} is {entry['dtype']}, expected F32")
        begin, end = entry["data_offsets"]
        out[name] = array.array("f", data[8 + size + begin:8 + size + end])
    return out


def shapes_of(path):
    data = pathlib.Path(path).read_bytes()
    size, = struct.unpack("<Q", data[:8])
    return {name: entry["shape"] for name, entry in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def write_weights(path, weights, shapes):
    header, at = {}, 0
    for name, values in weights.items():
        end = at + 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in weights.values()))


def png(seed, side=16):
    """An image of random pixels."""
    rng = random.Random(seed)
    rows = b"".join(b"\0" + rng.randbytes(3 * side) for _ in range(side))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_records(folder, records):
    """A record is a line of JSON, or an image: (path, seed)."""
    folder.mkdir(parents=True)
    if isinstance(records[0], str):
        (folder / "records.jsonl").write_text("".join(line + "\n" for line in records))
        return
    for name, seed in records:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(png(seed))
