"""Writes tables with pyarrow for tables_test.

  make_tables.py good OUT      tables that must be read, each with the same three records
  make_tables.py hostile OUT   a folder for each case, and OUT/cases.tsv: case, file, part of the message it is refused with
  make_tables.py big FILE MB   a Parquet file of about so many megabytes, in row groups of 20,000 rows
"""
import gzip
import pathlib
import random
import struct
import sys

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

TEXTS, LABELS, USERS = ["one", "zwei \u00e4\u00f6", "three\nlines"], ["a", "b", "a"], [7, 8, 7]
MESSAGES = [[{"role": "user", "content": f"ask {i}"}, {"role": "assistant", "content": f"say {i}"}] for i in range(3)]
STRUCT = pa.struct([("role", pa.string()), ("content", pa.string())])


def table(text=pa.string(), label=pa.string(), user=pa.int64(), **more):
    columns = {"id": pa.array([1.5, 2.5, 3.5]), "text": pa.array(TEXTS, text), "label": pa.array(LABELS, label),
               "who": pa.array(USERS, user)}
    return pa.table({**columns, **more})


def write_file(t, path, **options):
    with ipc.new_file(path, t.schema, options=ipc.IpcWriteOptions(**options)) as out:
        out.write_table(t, max_chunksize=2)


def write_stream(t, path, **options):
    with ipc.new_stream(path, t.schema, options=ipc.IpcWriteOptions(**options)) as out:
        out.write_table(t, max_chunksize=2)


def good(out):
    dictionary = pa.dictionary(pa.int8(), pa.string())
    pq.write_table(table(), out / "plain.parquet", row_group_size=2)
    for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
        pq.write_table(table(), out / f"{codec}.parquet", compression=codec)
    pq.write_table(table(text=pa.large_string()), out / "large.parquet")
    pq.write_table(table(text=pa.string_view()), out / "view.parquet")
    pq.write_table(table(text=dictionary, label=dictionary), out / "dictionary.parquet")
    pq.write_table(table(user=pa.uint8()), out / "narrow.parquet", version="1.0", data_page_version="2.0")
    pq.write_table(table(), out / "checked.parquet", write_page_checksum=True)
    write_file(table(), out / "file.arrow")
    write_file(table(text=dictionary), out / "dictionary.arrow", unify_dictionaries=True)
    write_file(table(), out / "zstd.arrow", compression="zstd")
    write_file(table(text=pa.string_view()), out / "view.arrow")
    write_stream(table(text=pa.large_string()), out / "stream.arrow")
    write_stream(table(), out / "lz4.arrow", compression="lz4")
    feather.write_feather(table(), str(out / "two.feather"))
    for name, kind in {"list": pa.list_(STRUCT), "large_list": pa.large_list(STRUCT), "fixed": pa.list_(STRUCT, 2)}.items():
        pq.write_table(pa.table({"messages": pa.array(MESSAGES, kind)}), out / f"{name}.chat.parquet")
        write_stream(pa.table({"messages": pa.array(MESSAGES, kind)}), out / f"{name}.chat.arrow")


CASES = {}


def case(name, file, expected):
    def add(make):
        assert name not in CASES, name
        CASES[name] = (file, expected, make)
        return make
    return add


def bytes_case(name, file, expected, content):
    case(name, file, expected)(lambda path: path.write_bytes(content))


def table_case(name, expected, make_table, endings=(".parquet", ".arrow"), **options):
    for ending in endings:
        def write(path, ending=ending):
            t = make_table() if callable(make_table) else make_table
            pq.write_table(t, path, **options) if ending == ".parquet" else write_stream(t, path)
        case(f"{name} {ending}", "a" + ending, expected)(write)


def edit_case(name, file, expected, edit):
    """Of a sound file, changed by its bytes."""
    def write(path):
        if file.endswith(".parquet"):
            pq.write_table(table(), path, compression="none", use_dictionary=False, row_group_size=2)
        elif file.startswith("stream"):
            write_stream(table(), path)
        else:
            write_file(table(), path)
        path.write_bytes(edit(bytearray(path.read_bytes())))
    case(name, file, expected)(write)


def put(at, content):
    def edit(data):
        begin = at if at >= 0 else len(data) + at
        data[begin:begin + len(content)] = content
        return data
    return edit


def cut(share):
    return lambda data: data[:int(len(data) * share)]


def swapped(old, new):
    def edit(data):
        assert len(old) == len(new) and old in data, old
        return data.replace(old, new)
    return edit


def column(values, kind=None):
    return lambda: pa.table({"text": pa.array(values, kind)})


def nested(depth):
    def make():
        value = "x"
        for _ in range(depth):
            value = {"x": value}
        return pa.table({"text": pa.array([value])})
    return make


def chat(values, kind=None):
    return lambda: pa.table({"messages": pa.array(values, kind)})


def bomb(path):
    # A few kilobytes that unpack to more than 1 GiB in one page.
    text = "x" * (64 << 20)
    with pq.ParquetWriter(path, pa.schema([("text", pa.large_string())]), compression="zstd", use_dictionary=False) as out:
        out.write_table(pa.table({"text": pa.array([text] * 17, pa.large_string())}), row_group_size=17)


def declare_cases():
    arrow = "Arrow cannot read it"
    # --- damaged files
    for name, file in {"parquet": "a.parquet", "arrow file": "a.arrow", "arrow stream": "stream.arrow"}.items():
        bytes_case(f"empty {name}", file, arrow, b"")
        bytes_case(f"one byte of {name}", file, arrow, b"P")
        bytes_case(f"zeros as {name}", file, arrow, b"\0" * 4096)
        bytes_case(f"text as {name}", file, arrow, b'{"text": "x"}\n' * 20)
        bytes_case(f"gzip as {name}", file, arrow, gzip.compress(b"text\nx\n" * 50, mtime=0))
        for share in (0.2, 0.5, 0.9):
            edit_case(f"{name} cut at {share}", file, arrow, cut(share))
    edit_case("parquet without its last byte", "a.parquet", arrow, lambda data: data[:-1])
    edit_case("parquet with a wrong last magic", "a.parquet", arrow, put(-4, b"XXXX"))
    edit_case("parquet of the encrypted kind", "a.parquet", arrow, put(-4, b"PARE"))
    edit_case("footer of 4 GiB", "a.parquet", arrow, put(-8, struct.pack("<I", 0xFFFFFFFF)))
    edit_case("footer of 2 GiB", "a.parquet", arrow, put(-8, struct.pack("<I", 0x7FFFFFFF)))
    edit_case("footer of nothing", "a.parquet", arrow, put(-8, struct.pack("<I", 0)))
    edit_case("footer one byte too short", "a.parquet", arrow,
              lambda data: put(-8, struct.pack("<I", struct.unpack("<I", data[-8:-4])[0] - 1))(data))
    edit_case("footer of zeros", "a.parquet", arrow,
              lambda data: put(-8 - struct.unpack("<I", data[-8:-4])[0], bytes(struct.unpack("<I", data[-8:-4])[0]))(data))
    edit_case("footer of ones", "a.parquet", arrow,
              lambda data: put(-8 - struct.unpack("<I", data[-8:-4])[0], b"\xff" * struct.unpack("<I", data[-8:-4])[0])(data))
    edit_case("page headers of zeros", "a.parquet", "row group 1", put(4, b"\0" * 120))
    edit_case("page headers of ones", "a.parquet", "row group 1", put(4, b"\xff" * 120))
    edit_case("arrow with a wrong last magic", "a.arrow", arrow, put(-6, b"XXXXXX"))
    edit_case("arrow with a footer of 2 GiB", "a.arrow", arrow, put(-10, struct.pack("<i", 0x7FFFFFFF)))
    edit_case("arrow with a footer of less than nothing", "a.arrow", arrow, put(-10, struct.pack("<i", -5)))
    edit_case("stream whose schema has 2 GiB", "stream.arrow", "more than 1 GiB", put(4, struct.pack("<i", 0x7FFFFFFF)))
    edit_case("stream whose schema has less than nothing", "stream.arrow", arrow, put(4, struct.pack("<i", -7)))
    edit_case("stream whose schema is ones", "stream.arrow", arrow, put(8, b"\xff" * 64))
    bytes_case("feather of the first version", "a.feather", "Feather's first version", b"FEA1" + bytes(64) + b"FEA1")
    for wrong in ("not UTF-8 in parquet", "not UTF-8 in arrow"):
        parquet = "parquet" in wrong
        edit_case(wrong, "a.parquet" if parquet else "a.arrow", "not UTF-8" if parquet else "UTF8",
                  swapped("zwei \u00e4".encode(), b"zwei \xff\xfe"))

    def bad_checksum(path):
        pq.write_table(table(), path, compression="none", use_dictionary=False, write_page_checksum=True)
        path.write_bytes(swapped(b"lines", b"linez")(bytearray(path.read_bytes())))
    case("parquet page with a wrong checksum", "a.parquet", "row group 1")(bad_checksum)

    def bad_codec(codec):
        def write(path):
            draw = random.Random(1)
            words = [" ".join(str(draw.random()) for _ in range(500)) for _ in range(4)]
            pq.write_table(pa.table({"text": words}), path, compression=codec, use_dictionary=False, write_statistics=False)
            data = bytearray(path.read_bytes())
            data[100:2000] = b"\xff" * 1900
            if codec == "zstd":  # any bytes may be literals of its
                begin = data.index(b"\x28\xb5\x2f\xfd")
                data[begin:begin + 4] = bytes(4)
            path.write_bytes(data)
        return write
    for codec in ("snappy", "gzip", "brotli", "zstd", "lz4"):
        case(f"parquet with damaged {codec}", "a.parquet", "row group 1")(bad_codec(codec))
    for codec in ("zstd", "lz4"):
        def bad_buffers(path, codec=codec):
            write_file(pa.table({"text": ["word " * 2000] * 4}), path, compression=codec)
            data = bytearray(path.read_bytes())
            magic = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}[codec]
            at = data.rfind(magic)
            data[at + 6:at + 30] = bytes(24)
            path.write_bytes(data)
        case(f"arrow with damaged {codec}", "a.arrow", "record batch")(bad_buffers)
        def big_buffers(path, codec=codec):
            write_file(pa.table({"text": ["word " * 2000] * 4}), path, compression=codec)
            data = bytearray(path.read_bytes())
            magic = {"zstd": b"\x28\xb5\x2f\xfd", "lz4": b"\x04\x22\x4d\x18"}[codec]
            at = data.rfind(magic)
            data[at - 8:at] = struct.pack("<q", 1 << 40)
            path.write_bytes(data)
        case(f"arrow whose {codec} buffer says 1 TiB", "a.arrow", "record batch")(big_buffers)
    case("decompression bomb in parquet", "a.parquet", "more than 1 GiB")(bomb)

    def bad_offsets(path):
        write_file(pa.table({"text": ["aa", "bb", "cc"]}), path)
        data = bytearray(path.read_bytes())
        at = data.index(struct.pack("<iii", 0, 2, 4))
        data[at + 4:at + 8] = struct.pack("<i", 1 << 30)
        path.write_bytes(data)
    case("arrow whose offsets leave the buffer", "a.arrow", "record batch 1")(bad_offsets)

    def bad_index(path):
        write_stream(pa.table({"text": pa.array(["aa", "bb", "aa", "bb"]).dictionary_encode()}), path)
        data = bytearray(path.read_bytes())
        at = data.rfind(struct.pack("<ii", 0, 1))
        data[at:at + 4] = struct.pack("<i", 1 << 20)
        path.write_bytes(data)
    case("arrow whose dictionary index is too large", "stream.arrow", "Dictionary indices invalid")(bad_index)

    # --- columns that are not what was expected
    table_case("null text", "row 2: 'text' must be a string, found null", column(["a", None]))
    table_case("text of nulls", "row 1: 'text' must be a string, found null", column([None, None], pa.null()))
    table_case("number as text", "row 1: 'text' must be a string, found the number 5", column([5]))
    table_case("negative number as text", "row 1: 'text' must be a string, found the number -5", column([-5]))
    table_case("real number as text", "row 1: 'text' must be a string, found a value of type double", column([0.5]))
    table_case("boolean as text", "row 1: 'text' must be a string, found a value of type bool", column([True]))
    table_case("bytes as text", "row 1: 'text' must be a string, found a value of type binary", column([b"x"]))
    table_case("date as text", "found a value of type timestamp", column([0], pa.timestamp("us")))
    table_case("list as text", "found a list of string", column([["a"]]))
    table_case("struct as text", "found a value of type struct", column([{"a": "b"}]))
    table_case("map as text", "found a value of type map", column([[("a", "b")]], pa.map_(pa.string(), pa.string())))
    table_case("no text", "expected a field 'text', or 'prompt' and 'completion', or 'messages', found the fields 'txt', 'n'",
               pa.table({"txt": ["a"], "n": [1]}))
    table_case("prompt alone", "expected a field 'text'", pa.table({"prompt": ["a"]}))
    table_case("two layouts", "can be read in two ways", pa.table({"text": ["a"], "messages": chat(MESSAGES[:1])()["messages"]}))
    table_case("a column twice", "the column 'text' is there twice",
               pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]))
    table_case("a name with control characters", "found the fields '\\x1b[2Jtext'", pa.table({"\x1b[2Jtext": ["a"]}))
    table_case("a name of a megabyte", "expected a field 'text'", pa.table({"x" * (1 << 20): ["a"]}))
    table_case("2,000 columns without text", "expected a field 'text'", pa.table({f"c{i}": [i] for i in range(2000)}))
    table_case("real number as label", "row 1: 'label' must be a string or a whole number from 0, found a value of type double",
               pa.table({"text": ["a"], "label": [0.5]}))
    table_case("negative label", "row 2: 'label' must be a string or a whole number from 0, found the number -1",
               pa.table({"text": ["a", "b"], "label": [1, -1]}))
    table_case("deep nesting", "found a value of type struct<x: struct<x: ", nested(30))
    table_case("absurd nesting", "too deeply nested", nested(300), endings=(".parquet",), store_schema=False)
    # --- conversations
    table_case("messages as a string", "'messages' must be a list", chat(["user: hello"]))
    table_case("messages as a list of strings", "'messages' must be a list", chat([["hello"]]))
    table_case("messages as a list of lists", "'messages' must be a list", chat([[["hello"]]]))
    table_case("messages without role", "'messages' must be a list", chat([[{"content": "x"}]]))
    table_case("messages without content", "'messages' must be a list", chat([[{"role": "user"}]]))
    table_case("messages whose content is null", "element 1 has null as its 'content'",
               chat([[{"role": "user", "content": None}]], pa.list_(STRUCT)))
    table_case("messages whose content is a number", "element 1 has the number 5 as its 'content'",
               chat([[{"role": "user", "content": 5}]]))
    table_case("a message that is null", "element 2 is null",
               chat([[{"role": "user", "content": "x"}, None]], pa.list_(STRUCT)))
    table_case("null messages", "row 1: 'messages' must be a list", chat([None], pa.list_(STRUCT)))
    table_case("messages without a template", "chat template", chat(MESSAGES))

    def mixed(first, second, expected, name):
        def write(path):
            pq.write_table(pa.table(first), path)
            pq.write_table(pa.table(second), path.with_name("b.parquet"))
        case(name, "a.parquet", expected)(write)
    mixed({"text": ["a"]}, {"txt": ["a"]}, "b.parquet: row 1: there is no field 'text'", "the second file has other columns")
    mixed({"text": ["a"]}, {"text": [1]}, "b.parquet: row 1: 'text' must be a string, found the number 1",
          "the second file has another type")
    # --- CSV and compressed texts
    bytes_case("csv of nothing", "a.csv", "a.csv:1: the file is empty", b"")
    bytes_case("csv of empty lines", "a.csv", "the file is empty", b"\n\r\n\n")
    bytes_case("csv with a short row", "a.csv", "a.csv:3: the row has 1 field", b"text,n\na,1\nb\n")
    bytes_case("csv with a long row", "a.csv", "a.csv:2: the row has more than 2", b"text,n\na,1,2\n")
    bytes_case("csv with an open quote", "a.csv", "a.csv:2: a quoted field that has no closing quote", b'text\n"a\nb\n')
    bytes_case("csv with a quote inside", "a.csv", "a.csv:2: a quote inside a field", b'text\na"b\n')
    bytes_case("csv with text after a quote", "a.csv", "a.csv:2: after a closing quote", b'text\n"a"b\n')
    bytes_case("csv with a name twice", "a.csv", "'text' twice", b"text,text\na,b\n")
    bytes_case("csv with a name missing", "a.csv", "has no name", b"text,,n\na,b,c\n")
    bytes_case("csv with semicolons", "a.csv", "separated by commas", b"text;n\na;1\n")
    bytes_case("csv with tabs", "a.csv", "separated by commas", b"text\tn\na\t1\n")
    bytes_case("csv in UTF-16", "a.csv", "NUL byte", "text,n\na,1\n".encode("utf-16"))
    bytes_case("csv in UTF-16 without a mark", "a.csv", "NUL byte", "text,n\na,1\n".encode("utf-16-le"))
    bytes_case("csv in Latin-1", "a.csv", "a.csv:2: the text is not UTF-8", "text\nGr\u00fc\u00dfe\n".encode("latin-1"))
    bytes_case("csv with a NUL byte", "a.csv", "a.csv:2: a NUL byte", b"text\na\0b\n")
    bytes_case("csv with bare carriage returns", "a.csv", "carriage return", b"text\rone\rtwo\r")
    bytes_case("csv with an empty cell", "a.csv", "a.csv:3: 'text' must be a string, found an empty cell", b"text,n\na,1\n,2\n")
    bytes_case("csv without a header", "a.csv", "expected a field 'text'", b"some words,1\nother words,2\n")
    bytes_case("csv with 20,000 fields", "a.csv", "more than 10000 fields", ",".join(f"c{i}" for i in range(20000)).encode())
    bytes_case("csv with a line of 70 MB", "a.csv", "a.csv:2: a row of more than 64", b"text\n" + b"x" * 70_000_000)
    bytes_case("parquet as csv", "a.csv", "a.csv:1", b"PAR1\x15\x00\x15\x1a")
    bytes_case("text as gzip", "a.csv.gz", "cannot be unpacked", b"text\nx\n")
    bytes_case("gzip cut short", "a.jsonl.gz", "in the middle", gzip.compress(b'{"text":"x"}\n' * 1000, mtime=0)[:-20])
    bytes_case("gzip as zstd", "a.jsonl.zst", "cannot be unpacked", gzip.compress(b'{"text":"x"}\n', mtime=0))
    bytes_case("gzip bomb", "a.jsonl.gz", "more than 200 times its size", gzip.compress(b'{"text":"x"}\n' * 7_000_000, mtime=0))
    bytes_case("gzip of a broken line", "a.jsonl.gz", "a.jsonl.gz:2: ", gzip.compress(b'{"text":"x"}\n{"text"', mtime=0))


def hostile(out):
    declare_cases()
    lines = []
    for number, (name, (file, expected, make)) in enumerate(CASES.items()):
        folder = out / f"{number:03}"
        folder.mkdir()
        make(folder / file)
        lines.append(f"{name}\t{number:03}\t{file}\t{expected}\n")
    (out / "cases.tsv").write_text("".join(lines))


def big(path, megabytes):
    words = [f"word{i}" for i in range(2000)]
    draw = random.Random(1)
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("label", pa.string())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as out:
        size, row = 0, 0
        while size < megabytes * 1_000_000:
            texts = [" ".join(draw.choices(words, k=draw.randint(20, 200))) for _ in range(2000)] * 10
            out.write_table(pa.table({"id": range(row, row + 20000), "text": texts, "label": ["ab"[i % 2] for i in range(20000)]},
                                     schema=schema), row_group_size=20000)
            size, row = size + sum(map(len, texts)), row + 20000


if __name__ == "__main__":
    verb, place = sys.argv[1], pathlib.Path(sys.argv[2])
    if verb == "big":
        big(place, int(sys.argv[3]))
    else:
        {"good": good, "hostile": hostile}[verb](place)
