"""Writes tests/io/corpus: small safetensors files, bad and good, with what must be said about each.

    .deps/peers/bin/python tools/golden/make_safetensors_corpus.py

expected.tsv has a row per file: name, our verdict, the verdict of Python's safetensors (asked here, of the installed
package), the reason where ours is the stricter one, and our exact message. The messages are written by hand: they are
what a person should read, and the C++ reader is tested against them.
"""

import json
import pathlib
import struct

import safetensors
import safetensors.torch
import torch

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "io" / "corpus"
DTYPES = "BOOL, U8, I8, F8_E5M2, F8_E4M3, I16, U16, F16, BF16, I32, U32, F32, F64, I64, U64"
INT64_MAX = 2**63 - 1

# Why we refuse what Python takes. Each is used by at least one case.
KEY_TWICE = "the format forbids a key twice; readers differ in which of the two they keep"
BEGINS = "the format says that a header begins with '{'"
UNKNOWN_FIELD = "a field we don't know may change what the bytes mean"
SERDE_FORM = "a second spelling that only one implementation understands; the format has one"
NOT_TAKEN = "a dtype of the format that nothing here computes with"
STRIDES = "libtorch's sizes and strides are signed 64-bit numbers, of empty tensors too"
NULL_METADATA = "the format says that __metadata__ is an object of strings"

cases = {}


def add(name, content, message=None, stricter=""):
    assert name not in cases, name
    assert (message is not None) or not stricter, name
    cases[name] = (content, message, stricter)


def pack(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def info(dtype="F32", shape="[1]", offsets="[0,4]"):
    return f'{{"dtype":{json.dumps(dtype)},"shape":{shape},"data_offsets":{offsets}}}'


def one(dtype="F32", shape="[1]", offsets="[0,4]", name='"a"', data=4):
    """A file with one tensor."""
    return pack(f"{{{name}:{info(dtype, shape, offsets)}}}", bytes(data))


def many(*entries, data=0):
    """A file with tensors named a, b, c ... of (dtype, shape, offsets)."""
    return pack("{" + ",".join(f'"{chr(97 + i)}":{info(*e)}' for i, e in enumerate(entries)) + "}", bytes(data))


A = f'"a":{info()}'
GOOD = pack(f"{{{A}}}", bytes(4))


def syntax(name, header, at, after, data=b""):
    add(name, pack(header, data), f"the header is not valid JSON at byte {at}, after '{after}'")


def of_a(name, content, message, stricter=""):
    add(name, content, f"tensor 'a': {message}", stricter)


# --- the frame: 8 bytes of length, and what they claim

for size, name in [(0, "empty_file"), (1, "one_byte"), (7, "seven_bytes")]:
    add(name, bytes(size), f"the file has {size} bytes, fewer than the 8 that say how long the header is")
add("length_and_nothing_else", struct.pack("<Q", 2), "the header is said to have 2 bytes, but 0 follow in the file")
add("header_length_zero", pack(b""), "the header must begin with '{', found nothing")
add("header_length_zero_before_a_header", pack("{}", length=0), "the header must begin with '{', found nothing")
add("header_length_beyond_file_by_one", pack("{}", length=3), "the header is said to have 3 bytes, but 2 follow in the file")
add("header_length_beyond_file", pack("{}", length=4096), "the header is said to have 4096 bytes, but 2 follow in the file")
add("header_length_at_limit_of_100mb", pack("{}", length=100_000_000),
    "the header is said to have 100000000 bytes, but 2 follow in the file")
for length, name in [(100_000_001, "header_length_over_100mb"), (2**63, "header_length_sign_bit"),
                     (2**64 - 1, "header_length_max"), (2**64 - 8, "header_length_wraps_to_zero")]:
    add(name, pack("{}", length=length), f"the header is said to have {length} bytes; at most 100000000 are allowed")
add("header_length_big_endian", struct.pack(">Q", 2) + b"{}",
    f"the header is said to have {2 << 56} bytes; at most 100000000 are allowed")
add("header_length_one_short", pack(f"{{{A}}}", bytes(4), length=len(A) + 1),
    f"the header is not valid JSON at byte {len(A) + 1}, after '1],\"data_offsets\":[0,4]}}'")
add("header_length_one_long", pack(f"{{{A}}}", bytes(4), length=len(A) + 3),
    f"the header has a NUL at byte {len(A) + 2}, which JSON allows nowhere")
for name, content in [("web_page", b"<!DOCTYPE html><html><body>404 Not Found</body></html>"),
                      ("large_file_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"),
                      ("torch_zip_archive", b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00archive/data.pkl"),
                      ("json_without_length", f"{{{A}}}".encode())]:
    length = struct.unpack("<Q", content[:8])[0]
    add(name, content, f"the header is said to have {length} bytes; at most 100000000 are allowed")
add("other_magic_of_small_value", b"GGUF\0\0\0\0" + bytes(8),
    f"the header is said to have {int.from_bytes(b'GGUF', 'little')} bytes; at most 100000000 are allowed")

# --- the header's text: UTF-8


def not_utf8(name, broken):
    add(name, pack(b'{"' + broken + b'":' + info().encode() + b"}", bytes(4)), "the header is not UTF-8 at byte 2")


not_utf8("not_utf8_lone_continuation", b"\x80")
not_utf8("not_utf8_latin1_name", b"\xe9t\xe9")
not_utf8("not_utf8_overlong_two_bytes", b"\xc0\xaf")
not_utf8("not_utf8_overlong_three_bytes", b"\xe0\x80\xaf")
not_utf8("not_utf8_overlong_four_bytes", b"\xf0\x80\x80\xaf")
not_utf8("not_utf8_surrogate", b"\xed\xa0\x80")
not_utf8("not_utf8_beyond_unicode", b"\xf4\x90\x80\x80")
not_utf8("not_utf8_five_byte_form", b"\xf8\x88\x80\x80\x80")
not_utf8("not_utf8_missing_continuation", b"\xe2\x82")
add("not_utf8_cut_at_end", pack(b"{}\xe2\x82"), "the header is not UTF-8 at byte 2")
add("not_utf8_in_metadata", pack(b'{"__metadata__":{"k":"\xff"}}'), "the header is not UTF-8 at byte 22")
add("utf16_header", pack("{}".encode("utf-16-le")), "the header has a NUL at byte 1, which JSON allows nowhere")
add("utf16_header_with_mark", pack(b"\xff\xfe{\0}\0"), "the header must begin with '{', found '\\xff'")
add("byte_order_mark", pack(b"\xef\xbb\xbf{}"), "the header must begin with '{', found '\\xef'")
add("nul_padding", pack("{}\0\0\0\0\0\0"), "the header has a NUL at byte 2, which JSON allows nowhere")
add("nul_in_name", pack('{"a\0b":' + info() + "}", bytes(4)), "the header has a NUL at byte 3, which JSON allows nowhere")

# --- the header's text: JSON

add("leading_space", pack(f" {{{A}}}", bytes(4)), "the header must begin with '{', found ' '", BEGINS)
add("leading_newline", pack(f"\n{{{A}}}", bytes(4)), "the header must begin with '{', found '\\x0a'", BEGINS)
for name, header in [("array", "[]"), ("string", '"a"'), ("number", "12"), ("null", "null"), ("boolean", "true")]:
    add(f"not_object_{name}", pack(header), f"the header must begin with '{{', found '{header[0]}'")
syntax("only_an_open_brace", "{", 1, "{")
syntax("unclosed_object", f"{{{A}", len(A) + 1, '1],"data_offsets":[0,4]}', bytes(4))
syntax("unclosed_string", '{"a', 3, '{"a')
syntax("unclosed_array", '{"a":{"shape":[1', 16, '{"a":{"shape":[1')
syntax("two_objects", "{}{}", 2, "{}")
syntax("text_after_object", "{} x", 3, "{} ")
syntax("closing_brace_twice", "{}}", 2, "{}")
syntax("brackets_crossed", '{"a":{"shape":[1}]}', 16, '{"a":{"shape":[1')
syntax("comma_trailing_in_object", f"{{{A},}}", len(A) + 2, '],"data_offsets":[0,4]},', bytes(4))
syntax("comma_trailing_in_array", '{"a":{"shape":[1,]}}', 17, '{"a":{"shape":[1,')
syntax("comma_twice", '{"a":{"shape":[1,,2]}}', 17, '{"a":{"shape":[1,')
syntax("comma_missing", '{"a":{"shape":[1 2]}}', 17, '{"a":{"shape":[1 ')
syntax("comma_first", '{,"a":1}', 1, "{")
syntax("colon_missing", '{"a" 1}', 5, '{"a" ')
syntax("colon_twice", '{"a"::1}', 5, '{"a":')
syntax("key_is_a_number", "{1:2}", 1, "{")
syntax("key_without_quotes", "{a:1}", 1, "{")
syntax("key_in_single_quotes", "{'a':1}", 1, "{")
syntax("comment", "{/*a*/}", 1, "{")
syntax("escape_unknown", '{"\\x":1}', 3, '{"\\')
syntax("escape_short", '{"\\u12":1}', 6, '{"\\u12')
syntax("escape_lone_high_surrogate", '{"\\ud800":1}', 8, '{"\\ud800')
syntax("escape_lone_low_surrogate", '{"\\udc00":1}', 7, '{"\\udc0')
syntax("newline_in_name", '{"a\nb":1}', 3, '{"a')
syntax("tab_in_name", '{"a\tb":1}', 3, '{"a')
syntax("escape_character_in_name", '{"\x1b[2J":1}', 2, '{"')
syntax("vertical_tab_between", "{\x0b}", 1, "{")
syntax("no_break_space_between", "{\u00a0}", 1, "{")
SHAPE = '{"a":{"shape":['
for name, number, offset in [("hex", "0x10", 1), ("leading_zero", "01", 1), ("plus_sign", "+1", 0), ("no_fraction", "1.]", 2),
                             ("no_whole_part", ".5", 0), ("minus_alone", "-]", 1), ("exponent_empty", "1e]", 2),
                             ("not_a_number", "NaN", 0), ("infinity", "Infinity", 0), ("literal_cut", "tru]", 3)]:
    shown = (SHAPE + number)[: len(SHAPE) + offset]
    syntax(f"number_{name}", SHAPE + number + "]}}", len(SHAPE) + offset, shown)
syntax("number_beyond_double", SHAPE + "1e999]}}", len(SHAPE) + 4, SHAPE + "1e99")

# --- the header's structure

for name, value, found in [("null", "null", "null"), ("string", '"F32"', "a string"), ("number", "4", "the number 4"),
                           ("boolean", "false", "a boolean")]:
    of_a(f"tensor_is_{name}", pack(f'{{"a":{value}}}'), f"must be an object, found {found}")
of_a("tensor_is_sequence", pack('{"a":["F32",[1],[0,4]]}', bytes(4)), "must be an object, found an array", SERDE_FORM)
of_a("tensor_is_empty_object", pack('{"a":{}}'), "has no dtype")
of_a("dtype_missing", pack('{"a":{"shape":[1],"data_offsets":[0,4]}}', bytes(4)), "has no dtype")
of_a("shape_missing", pack('{"a":{"dtype":"F32","data_offsets":[0,4]}}', bytes(4)), "has no shape")
of_a("offsets_missing", pack('{"a":{"dtype":"F32","shape":[1]}}', bytes(4)), "has no data_offsets")
FIELDS = "; a tensor has dtype, shape and data_offsets"
of_a("field_unknown", pack(f"{{{A[:-1]},\"strides\":[1]}}}}", bytes(4)), f"unknown field 'strides'{FIELDS}", UNKNOWN_FIELD)
of_a("field_unknown_deeply_nested", pack(f"{{{A[:-1]},\"x\":{'[' * 100}{']' * 100}}}}}", bytes(4)),
     f"unknown field 'x'{FIELDS}", UNKNOWN_FIELD)
of_a("field_unknown_too_deeply_nested", pack(f"{{{A[:-1]},\"x\":{'[' * 200}{']' * 200}}}}}", bytes(4)),
     f"unknown field 'x'{FIELDS}")
of_a("field_in_capitals", pack('{"a":{"DTYPE":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
     f"unknown field 'DTYPE'{FIELDS}")
of_a("field_of_old_readme", pack('{"a":{"dtype":"F32","shape":[1],"offsets":[0,4]}}', bytes(4)),
     f"unknown field 'offsets'{FIELDS}")
of_a("nested_too_deep", pack('{"a":' * 64 + "1" + "}" * 64), f"unknown field 'a'{FIELDS}")
of_a("nested_arrays_too_deep", pack('{"a":' + "[" * 200 + "]" * 200 + "}"), "must be an object, found an array")

for name, value, found in [("null", "null", "null"), ("number", "32", "the number 32"), ("array", '["F32"]', "an array")]:
    of_a(f"dtype_is_{name}", pack(f'{{"a":{{"dtype":{value},"shape":[1],"data_offsets":[0,4]}}}}', bytes(4)),
         f"dtype must be a string, found {found}")
of_a("dtype_is_object", pack('{"a":{"dtype":{"F32":null},"shape":[1],"data_offsets":[0,4]}}', bytes(4)),
     "dtype must be a string, found an object", SERDE_FORM)
for name, dtype in [("unknown", "F31"), ("in_small_letters", "f32"), ("empty", ""), ("with_space", "F32 "), ("numpy", "<f4"),
                    ("torch", "torch.float32"), ("c128", "C128"), ("i4", "I4"), ("f128", "F128")]:
    of_a(f"dtype_{name}", one(dtype), f"dtype '{dtype}' is not one of {DTYPES}")
for dtype, shape, size in [("F4", 8, 4), ("F6_E2M3", 4, 3), ("F6_E3M2", 4, 3), ("F8_E8M0", 4, 4), ("F8_E4M3FNUZ", 4, 4),
                           ("F8_E5M2FNUZ", 4, 4), ("C64", 1, 8)]:
    of_a(f"dtype_not_taken_{dtype.lower()}", one(dtype, f"[{shape}]", f"[0,{size}]", data=size),
         f"dtype '{dtype}' is not one of {DTYPES}", NOT_TAKEN)

MINUS = "a number with a minus sign"
NOT_WHOLE = "a number that is not whole or not below 2^64"
for name, value, found in [("null", "null", "null"), ("number", "1", "the number 1"), ("string", '"1"', "a string"),
                           ("object", "{}", "an object")]:
    of_a(f"shape_is_{name}", one(shape=value), f"shape must be an array, found {found}")
    if name != "number":
        of_a(f"offsets_are_{name}", one(offsets=value), f"data_offsets must be an array, found {found}")
for name, value, found in [("negative", "-1", MINUS), ("minus_zero", "-0", MINUS), ("float", "1.0", NOT_WHOLE),
                           ("exponent", "1e0", NOT_WHOLE), ("string", '"1"', "a string"), ("null", "null", "null"),
                           ("boolean", "true", "a boolean"), ("array", "[1]", "an array"), ("above_u64", str(2**64), NOT_WHOLE)]:
    of_a(f"dim_{name}", one(shape=f"[{value}]"), f"shape[0] must be a whole number from 0 to {INT64_MAX}, found {found}")
    of_a(f"offset_{name}", one(offsets=f"[0,{value}]"), f"data_offsets[1] must be a whole number from 0, found {found}")
of_a("dim_above_i64_of_empty_tensor", one(shape=f"[0,{2**64 - 1}]", offsets="[0,0]", data=0),
     f"shape[1] must be a whole number from 0 to {INT64_MAX}, found the number {2**64 - 1}", STRIDES)
of_a("dim_above_i64", one("U8", f"[{2**63}]", f"[0,{2**63}]"),
     f"shape[0] must be a whole number from 0 to {INT64_MAX}, found the number {2**63}")
for name, value, found in [("none", "[]", 0), ("one", "[4]", 1), ("three", "[0,4,8]", "more")]:
    of_a(f"offsets_{name}", one(offsets=value), f"data_offsets must have 2 numbers, found {found}")

add("duplicate_key_tensor", pack(f"{{{A},{A}}}", bytes(4)), "the header has the key 'a' twice", KEY_TWICE)
add("duplicate_key_tensors_differ", pack(f'{{{A},"a":{info(offsets="[4,8]")}}}', bytes(8)),
    "the header has the key 'a' twice")
add("duplicate_key_last_one_fits", pack(f'{{"a":{info(offsets="[4,8]")},{A}}}', bytes(4)),
    "the header has the key 'a' twice", KEY_TWICE)
add("duplicate_key_by_escape", pack(f'{{{A},"\\u0061":{info()}}}', bytes(4)), "the header has the key 'a' twice", KEY_TWICE)
for field, value in [("dtype", '"F32"'), ("shape", "[1]"), ("data_offsets", "[0,4]")]:
    add(f"duplicate_key_{field}", pack(f'{{{A[:-1]},"{field}":{value}}}}}', bytes(4)),
        f"the header has the key '{field}' twice in 'a'")
add("duplicate_key_metadata", pack('{"__metadata__":{},"__metadata__":{}}'), "the header has the key '__metadata__' twice")
add("duplicate_key_in_metadata", pack('{"__metadata__":{"k":"1","k":"2"}}'),
    "the header has the key 'k' twice in '__metadata__'", KEY_TWICE)

for name, value, found in [("array", "[]", "an array"), ("string", '"pt"', "a string"), ("number", "1", "the number 1")]:
    add(f"metadata_is_{name}", pack(f'{{"__metadata__":{value}}}'),
        f"__metadata__ must be an object of strings, found {found}")
add("metadata_is_null", pack('{"__metadata__":null}'), "__metadata__ must be an object of strings, found null", NULL_METADATA)
for name, value, found in [("number", "1", "the number 1"), ("null", "null", "null"), ("boolean", "true", "a boolean"),
                           ("array", '["v"]', "an array"), ("object", "{}", "an object")]:
    add(f"metadata_value_is_{name}", pack(f'{{"__metadata__":{{"k":{value}}}}}'),
        f"__metadata__: 'k' must be a string, found {found}")
add("metadata_is_a_tensor", one(name='"__metadata__"'), "__metadata__: 'shape' must be a string, found an array")

# --- the layout: sizes, overlaps, holes, the end of the file

of_a("offsets_swapped", one(offsets="[4,0]"), "data_offsets [4, 0] end before they begin")
of_a("offsets_swapped_of_empty_tensor", one(shape="[0]", offsets="[4,0]"), "data_offsets [4, 0] end before they begin")
of_a("offsets_wrap_around", one("U8", "[8]", f"[{2**64 - 4},4]"), f"data_offsets [{2**64 - 4}, 4] end before they begin")


def size(name, dtype, shape, takes, offsets, data):
    begin, end = offsets
    of_a(name, one(dtype, json.dumps(shape), json.dumps(offsets), data=data),
         f"shape {shape} of {dtype} takes {takes} bytes, but data_offsets [{begin}, {end}] hold {end - begin}")


size("size_too_small", "F32", [2, 2], 16, [0, 12], 12)
size("size_too_large", "F32", [2, 2], 16, [0, 20], 20)
size("size_in_elements", "F32", [4], 16, [0, 4], 4)
size("size_of_another_dtype", "BF16", [4], 8, [0, 16], 16)
size("size_of_scalar_is_zero", "F64", [], 8, [0, 0], 0)
size("size_of_scalar_is_two", "F64", [], 8, [0, 16], 16)
size("size_of_empty_tensor_is_not_zero", "F32", [0, 4], 0, [0, 4], 4)
size("size_zero_of_a_tensor", "I64", [1], 8, [0, 0], 0)
size("size_half_an_element", "F16", [3], 6, [0, 5], 5)
size("size_claims_all_memory", "U8", [1], 1, [0, 2**64 - 1], 1)
size("size_of_a_terabyte_in_no_bytes", "U8", [2**40], 2**40, [0, 0], 0)


def overflow(name, dtype, shape, end, data=0, stricter=""):
    printed = ", ".join(map(str, shape[:8])) + (", ..." if len(shape) > 8 else "")
    of_a(name, one(dtype, json.dumps(shape), f"[0,{end}]", data=data),
         f"shape [{printed}] of {dtype} overflows 64 bits", stricter)


overflow("shape_overflow", "F32", [2**32, 2**32], 4, 4)
overflow("shape_overflow_to_zero", "U8", [2**32, 2**32], 0)
overflow("shape_overflow_to_the_right_size", "F32", [2**62 + 1], 4, 4)
overflow("shape_overflow_in_bytes_only", "F64", [2**61], 0)
overflow("shape_overflow_of_signed_only", "U8", [2, 2**62], 2**63)
overflow("shape_overflow_before_zero", "F32", [2**62, 8, 0], 0)
overflow("shape_overflow_behind_zero", "F32", [0, 2**62, 8], 0, stricter=STRIDES)
overflow("shape_overflow_of_many_dims", "F32", [2] * 70, 0)


def hole(name, content, tensor, begin, before):
    add(name, content, f"tensor '{tensor}': begins at byte {begin} of the data, but what is before it ends at byte {before}: "
                       f"a hole of {begin - before} bytes")


hole("hole_at_begin", one(offsets="[4,8]", data=8), "a", 4, 0)
hole("hole_between", many(("F32", "[1]", "[0,4]"), ("F32", "[1]", "[8,12]"), data=12), "b", 8, 4)
hole("hole_of_one_byte", many(("U8", "[1]", "[0,1]"), ("U8", "[1]", "[2,3]"), data=3), "b", 2, 1)
hole("hole_for_alignment", many(("U8", "[3]", "[0,3]"), ("F32", "[1]", "[4,8]"), data=8), "b", 4, 3)
hole("hole_before_empty_tensor", many(("U8", "[1]", "[0,1]"), ("U8", "[0]", "[2,2]"), data=2), "b", 2, 1)
hole("hole_beyond_the_file", one(offsets=f"[{2**40},{2**40 + 4}]"), "a", 2**40, 0)
hole("hole_up_to_the_largest_offset", one("U8", "[0]", f"[{2**64 - 1},{2**64 - 1}]", data=0), "a", 2**64 - 1, 0)
hole("offsets_count_from_file", one(offsets="[62,66]"), "a", 62, 0)


def overlap(name, content, second, offsets, first, before):
    add(name, content, f"tensor '{second}': data_offsets {offsets} overlap those of '{first}', {before}")


overlap("overlap_same_bytes", many(("F32", "[1]", "[0,4]"), ("F32", "[1]", "[0,4]"), data=4), "b", "[0, 4]", "a", "[0, 4]")
overlap("overlap_by_one_byte", many(("U8", "[4]", "[0,4]"), ("U8", "[4]", "[3,7]"), data=7), "b", "[3, 7]", "a", "[0, 4]")
overlap("overlap_inside", many(("U8", "[8]", "[0,8]"), ("U8", "[2]", "[2,4]"), data=8), "b", "[2, 4]", "a", "[0, 8]")
overlap("overlap_same_begin", many(("U8", "[4]", "[0,4]"), ("U8", "[2]", "[0,2]"), data=4), "a", "[0, 4]", "b", "[0, 2]")
overlap("overlap_listed_backwards", many(("U8", "[4]", "[2,6]"), ("U8", "[4]", "[0,4]"), data=6), "a", "[2, 6]", "b", "[0, 4]")
overlap("overlap_hidden_by_right_total",
        many(("U8", "[2]", "[0,2]"), ("U8", "[2]", "[1,3]"), ("U8", "[1]", "[3,4]"), data=4), "b", "[1, 3]", "a", "[0, 2]")
overlap("overlap_of_empty_tensor", many(("U8", "[2]", "[0,2]"), ("U8", "[0]", "[1,1]"), data=2), "b", "[1, 1]", "a", "[0, 2]")


def end(name, content, take, has):
    tail = "it is cut short" if take > has else f"the last {has - take} belong to no tensor"
    add(name, content, f"the tensors take {take} bytes of data, but the file has {has}: {tail}")


end("truncated_all_data", one(data=0), 4, 0)
end("truncated_last_byte", one(data=3), 4, 3)
end("truncated_second_tensor", many(("F32", "[1]", "[0,4]"), ("F32", "[1]", "[4,8]"), data=4), 8, 4)
end("truncated_terabyte", one("U8", f"[{2**40}]", f"[0,{2**40}]", data=4), 2**40, 4)
end("trailing_byte", one(data=5), 4, 5)
end("trailing_newline", GOOD + b"\n", 4, 5)
end("trailing_second_file", GOOD + GOOD, 4, 4 + len(GOOD))
end("trailing_data_without_tensors", pack("{}", bytes(8)), 0, 8)
end("trailing_data_of_empty_tensors", one(shape="[0]", offsets="[0,0]", data=1), 0, 1)
end("trailing_polyglot_zip", pack("{}", b"PK\x05\x06" + bytes(18)), 0, 22)

# --- what a message shows of a name

LONG = "model.layers.0." * 20
add("message_shortens_long_name", one(shape="[2]", name=json.dumps(LONG)),
    f"tensor '{LONG[:48]}...': shape [2] of F32 takes 8 bytes, but data_offsets [0, 4] hold 4")
add("message_escapes_control_characters", one(shape="[2]", name='"\\u001b[31m\\r\\n\\u0000\\u0085"'),
    "tensor '\\x1b[31m\\x0d\\x0a\\x00\\xc2\\x85': shape [2] of F32 takes 8 bytes, but data_offsets [0, 4] hold 4")
add("message_keeps_unicode", one(shape="[2]", name='"größe.重み"'),
    "tensor 'größe.重み': shape [2] of F32 takes 8 bytes, but data_offsets [0, 4] hold 4")

# --- files cut at every kind of place, from one that the reference wrote

torch.manual_seed(0)
WRITTEN = safetensors.torch.save({"weight": torch.randn(2, 3), "bias": torch.randn(3)}, {"format": "pt"})
header_end = 8 + struct.unpack("<Q", WRITTEN[:8])[0]
add("truncated_python_in_length", WRITTEN[:5], "the file has 5 bytes, fewer than the 8 that say how long the header is")
add("truncated_python_in_header", WRITTEN[:100],
    f"the header is said to have {header_end - 8} bytes, but 92 follow in the file")
end("truncated_python_after_header", WRITTEN[:header_end], 36, 0)
end("truncated_python_in_data", WRITTEN[:-7], 36, 29)

# --- good files

add("good_no_tensors", pack("{}"))
add("good_no_tensors_padded", pack("{}      "))
add("good_padding_of_other_whitespace", pack("{}\n\t\r "))
add("good_one_tensor", GOOD)
add("good_whitespace_between", pack('{ "a" : { "dtype" : "F32" ,\n"shape" : [ 1 ] ,\t"data_offsets" : [ 0 , 4 ] } }', bytes(4)))
add("good_fields_in_any_order", pack('{"a":{"data_offsets":[0,4],"shape":[1],"dtype":"F32"}}', bytes(4)))
add("good_listed_backwards", many(("U8", "[1]", "[1,2]"), ("U8", "[1]", "[0,1]"), data=2))
add("good_scalar", one(shape="[]"))
add("good_empty_tensor", one(shape="[0]", offsets="[0,0]", data=0))
add("good_empty_tensor_with_large_dims", one(shape="[1099511627776,0,1024]", offsets="[0,0]", data=0))
add("good_empty_tensors_between", many(("U8", "[0]", "[0,0]"), ("U8", "[1]", "[0,1]"), ("U8", "[3,0]", "[1,1]"),
                                       ("F64", "[0]", "[1,1]"), ("U8", "[1]", "[1,2]"), ("U8", "[0]", "[2,2]"), data=2))
add("good_many_dims", one("U8", "[" + ",".join(["1"] * 100) + "]", "[0,1]", data=1))
add("good_data_not_aligned", pack(f"{{{A}}} ", struct.pack("<f", 1.5)))
add("good_tensor_not_aligned", pack(f'{{"a":{info("U8", "[1]", "[0,1]")},"b":{info("F32", "[1]", "[1,5]")}}}',
                                    b"\x07" + struct.pack("<f", -2.5)))
for dtype, width in [("BOOL", 1), ("U8", 1), ("I8", 1), ("F8_E5M2", 1), ("F8_E4M3", 1), ("I16", 2), ("U16", 2), ("F16", 2),
                     ("BF16", 2), ("I32", 4), ("U32", 4), ("F32", 4), ("F64", 8), ("I64", 8), ("U64", 8)]:
    add(f"good_dtype_{dtype.lower()}", one(dtype, "[3]", f"[0,{3 * width}]", data=3 * width))
add("good_name_empty", one(name='""'))
add("good_name_unicode", one(name='"größe.重み"'))
add("good_name_surrogate_pair", one(name='"\\ud83d\\ude00"'))
add("good_name_escapes", one(name='"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041"'))
add("good_name_escaped_nul", one(name='"a\\u0000b"'))
add("good_name_delete_character", one(name='"\x7f"'))
add("good_name_almost_metadata", one(name='"__metadata"'))
add("good_metadata_empty", pack('{"__metadata__":{}}'))
add("good_metadata", pack(f'{{"__metadata__":{{"format":"pt","":"","note":"größe \\u0041\\n"}},{A}}}', bytes(4)))
add("good_metadata_last", pack(f'{{{A},"__metadata__":{{"format":"pt"}}}}', bytes(4)))
add("good_metadata_by_escape", pack(f'{{{A},"\\u005f_metadata__":{{"format":"pt"}}}}', bytes(4)))
add("good_metadata_named_as_itself", pack('{"__metadata__":{"__metadata__":"v"}}'))

# Written by the reference; the C++ writer must give the same bytes.
add("python_empty", safetensors.torch.save({}))
add("python_metadata_only", safetensors.torch.save({}, {"format": "pt"}))
add("python_two_tensors", WRITTEN)
add("python_scalar_and_empty", safetensors.torch.save({"scalar": torch.tensor(3.5), "empty": torch.empty(2, 0)}))
add("python_odd_names", safetensors.torch.save({'"quoted\\"': torch.ones(1), "größe\n\x1f\x7f": torch.ones(2), "a/b": torch.ones(3)},
                                               {"k\u00e9y": "tab\tand \u0001"}))
add("python_all_dtypes", safetensors.torch.save({
    f"{i % 4}.{str(dtype)[6:]}": torch.arange(3).to(dtype)
    for i, dtype in enumerate([torch.bool, torch.uint8, torch.int8, torch.float8_e5m2, torch.float8_e4m3fn, torch.int16,
                               torch.uint16, torch.float16, torch.bfloat16, torch.int32, torch.uint32, torch.float32,
                               torch.float64, torch.int64, torch.uint64])}))


def python_verdict(path):
    def accepts(read):
        try:
            read()
            return True
        except safetensors.SafetensorError:
            return False

    def read_file():
        with safetensors.safe_open(path, framework="pt") as file:
            file.metadata(), file.keys()

    from_file = accepts(read_file)
    assert from_file == accepts(lambda: safetensors.deserialize(path.read_bytes())), path
    return "accept" if from_file else "reject"


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.safetensors"):
        old.unlink()
    rows = []
    for name, (content, message, stricter) in cases.items():
        path = OUT / f"{name}.safetensors"
        path.write_bytes(content)
        ours = "accept" if message is None else "reject"
        rows.append((name, ours, python_verdict(path), stricter, message or ""))
    lines = [f"# {len(rows)} files; python: safetensors {safetensors.__version__}. Written by tools/golden/make_safetensors_corpus.py.",
             "name\tours\tpython\twhy we are stricter\tmessage"]
    for row in rows:
        assert not any(c in cell for cell in row for c in "\t\n"), row
        lines.append("\t".join(row))
    (OUT / "expected.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    differ = [r for r in rows if r[1] != r[2]]
    for row in differ:
        assert row[1] == "reject" and row[3], f"{row[0]}: ours {row[1]}, python {row[2]}, and no reason is given"
    for row in rows:
        assert row[1] != row[2] or not row[3], f"{row[0]}: a reason to be stricter, but Python says the same"
    bad = sum(r[1] == "reject" for r in rows)
    largest = max(len(content) for content, _, _ in cases.values())
    print(f"{len(rows)} files, {bad} bad, {len(rows) - bad} good, {len(differ)} where we are stricter; largest {largest} bytes")


main()
