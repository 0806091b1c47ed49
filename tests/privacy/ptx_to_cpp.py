"""Translates the kernels of a PTX file to C++, instruction by instruction, so that a machine without a GPU runs what nvcc made.

usage: ptx_to_cpp.py KERNELS.ptx OUT.cpp      NAME=FRAGMENT ...: the kernel whose name contains FRAGMENT is called NAME

A kernel becomes `void NAME(uint32_t block, uint32_t thread, const void* const* parameters)`. An instruction that isn't in the
table ends the translation: nothing is guessed, and none that rounds otherwise (.ftz, .approx) is in it.
"""
import re
import sys

TYPES = {"p": "bool", "rs": "uint16_t", "r": "uint32_t", "rd": "uint64_t", "f": "float", "fd": "double"}
SIGNED = {"s16": "int16_t", "s32": "int32_t", "s64": "int64_t", "b32": "uint32_t"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "ge": ">=", "gt": ">", "le": "<="}
UNORDERED = {"gtu": "<=", "ltu": ">=", "geu": "<", "leu": ">"}  # of floats: true unless this holds, so for a NaN
INFIX = {"add.rn.f32": "+", "add.rn.f64": "+", "sub.rn.f32": "-", "sub.rn.f64": "-", "mul.rn.f32": "*", "mul.rn.f64": "*", "div.rn.f32": "/",
         "add.s32": "+", "add.s64": "+", "sub.s32": "-", "sub.s64": "-", "and.b32": "&", "and.b64": "&", "or.b32": "|",
         "or.b64": "|", "xor.b32": "^", "shl.b32": "<<", "shl.b64": "<<", "shr.u32": ">>", "shr.u64": ">>",
         "and.pred": "&&", "or.pred": "||"}
CALLS = {"fma.rn.f32": "__builtin_fmaf({}, {}, {})", "neg.f32": "-{}", "rcp.rn.f32": "1.0f / {}", "sqrt.rn.f32": "__builtin_sqrtf({})",
         "shr.s32": "(uint32_t)((int32_t){} >> {})", "abs.f64": "__builtin_fabs({})", "mul.wide.u16": "(uint32_t)(uint16_t){} * (uint16_t){}",
         **{f"selp.{type}": "{2} ? {0} : {1}" for type in ("f32", "f64", "u16", "u32")}, "mul.wide.u32": "(uint64_t){} * {}",
         "shf.l.wrap.b32": "({1} << {2}) | ({0} >> (32 - {2}))", "bfi.b64": "insert({}, {}, {}, {})", "cvta.to.global.u64": "{}",
         "cvt.f64.f32": "(double){}", "cvt.rn.f32.s32": "(float)(int32_t){}", "cvt.rni.f64.f64": "__builtin_nearbyint({})",
         "cvt.u16.u32": "(uint16_t){}", "cvt.u32.u64": "(uint32_t){}", "cvt.u64.u32": "(uint64_t){}"}
PRELUDE = """// Made by tests/privacy/ptx_to_cpp.py.
#include <cstdint>
#include <cstring>
namespace {
template <class To, class From>
void move(To& to, From from) {
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
}
template <class To>
void load(To& to, const void* from) {
  std::memcpy(&to, from, sizeof to);
}
float bits(uint32_t word) {
  float out;
  move(out, word);
  return out;
}
double wide_bits(uint64_t word) {
  double out;
  move(out, word);
  return out;
}
uint64_t insert(uint64_t a, uint64_t b, unsigned at, unsigned count) {
  const uint64_t mask = ((uint64_t{1} << count) - 1) << at;
  return (b & ~mask) | ((a << at) & mask);
}
}  // namespace
"""


def operand(word):
    word = word.strip()
    if re.fullmatch(r"0f[0-9A-F]{8}", word):
        return f"bits(0x{word[2:]}u)"
    if re.fullmatch(r"0d[0-9A-F]{16}", word):
        return f"wide_bits(0x{word[2:]}u)"
    if re.fullmatch(r"-?\d+", word):
        return f"({word}u)" if word[0] != "-" else f"((uint32_t){word})"
    if word in ("%ctaid.x", "%tid.x"):
        return {"%ctaid.x": "block", "%tid.x": "thread"}[word]
    if re.fullmatch(r"%[a-z]+\d+", word):
        return word[1:]
    sys.exit(f"ptx_to_cpp: no operand of the table: {word}")


def place(word):
    """[%rd7+4] or [name_param_0+40] as a C++ expression for the address."""
    base, _, offset = word.strip("[]").partition("+")
    if parameter := re.search(r"_param_(\d+)$", base):
        return f"(const char*)parameters[{parameter.group(1)}] + {offset or 0}"
    return f"(char*)({operand(base)} + {offset or 0})"


def statement(name, arguments):
    if name.startswith("ld."):
        targets = re.findall(r"%[a-z]+\d+", arguments.partition("[")[0])
        source = place(re.search(r"\[.*\]", arguments).group())
        return " ".join(f"load({t[1:]}, {source} + {i} * sizeof({t[1:]}));" for i, t in enumerate(targets))
    words = [word.strip() for word in arguments.split(",")]
    if name in ("st.global.f64", "st.global.u16"):
        return f"std::memcpy({place(words[0])}, &{operand(words[1])}, sizeof({operand(words[1])}));"
    target, *sources = [operand(word) for word in words]
    if name in ("mov.u16", "mov.pred"):
        return f"{target} = {sources[0]};"
    if name.startswith("mov."):
        return f"move({target}, {sources[0]});"
    if name in INFIX:
        return f"{target} = {sources[0]} {INFIX[name]} {sources[1]};"
    if name in CALLS:
        return f"{target} = {CALLS[name].format(*sources)};"
    if compare := re.fullmatch(r"setp\.(\w+)\.(\w+)", name):
        if compare.group(2) == "f64":
            a, b = sources
            return f"{target} = " + (f"!({a} {UNORDERED[compare[1]]} {b});" if compare[1] in UNORDERED else f"{a} {COMPARE[compare[1]]} {b};")
        kind = SIGNED[compare.group(2)]
        return f"{target} = ({kind}){sources[0]} {COMPARE[compare.group(1)]} ({kind}){sources[1]};"
    sys.exit(f"ptx_to_cpp: no instruction of the table: {name} {arguments}")


def translated(name, body):
    out = [f"void {name}(uint32_t block, uint32_t thread, const void* const* parameters) {{"]
    for prefix, count in re.findall(r"\.reg \.\w+\s+%([a-z]+)<(\d+)>;", body):
        out.append("  " + TYPES[prefix] + " " + ", ".join(f"{prefix}{i}{{}}" for i in range(int(count))) + ";")
    for line in body.splitlines():
        line = line.strip()
        if label := re.fullmatch(r"\$(\w+):", line):
            out.append(f"{label.group(1)}:;")
        elif jump := re.fullmatch(r"@(!?)%(p\d+) bra\s+\$(\w+);", line):
            out.append(f"  if ({jump.group(1)}{jump.group(2)}) goto {jump.group(3)};")
        elif line == "ret;":
            out.append("  return;")
        elif instruction := re.fullmatch(r"([a-z][\w.]+)\s+(.*);", line):
            out.append("  " + statement(*instruction.groups()))
        elif line and not line.startswith((".reg", "//", "{", "}")):
            sys.exit(f"ptx_to_cpp: no line of the table: {line}")
    return out + ["}"]


def main():
    source, target, *names = sys.argv[1:]
    text = open(source).read()
    kernels = re.findall(r"\.entry (\w+)\(.*?\)\s*(?:\.\w+ [\d, ]+\s*)*\{(.*?)\n\}", text, re.S)
    out = [PRELUDE]
    for word in names:
        name, fragment = word.split("=")
        (body,) = [body for kernel, body in kernels if fragment in kernel]
        out += translated(name, body)
    open(target, "w").write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
