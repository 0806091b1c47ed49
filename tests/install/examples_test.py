"""Installs the build to a folder of its own, builds examples/ with find_package(shade) and runs each of them.

usage: examples_test.py --source ROOT --build BUILD --compiler CXX
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

parser = argparse.ArgumentParser()
for name in ("--source", "--build", "--compiler"):
    parser.add_argument(name, required=True)
options = parser.parse_args()
source, work = pathlib.Path(options.source), pathlib.Path(options.build) / "installed"
prefix, build = work / "prefix", work / "examples"


def run(*command, fails=False):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace")
    if (done.returncode != 0) != fails:
        sys.exit(f"exit status {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def require(condition, *words):
    if not condition:
        sys.exit(" ".join(map(str, words)))


def install():
    shutil.rmtree(work, ignore_errors=True)
    run("cmake", "--install", options.build, "--prefix", prefix)
    headers = list((prefix / "include").rglob("*.h"))
    require(len(headers) > 20, "only", len(headers), "headers were installed")
    for header in headers:
        for name in re.findall(r'^#include "([^"]+)"', header.read_text(), re.M):
            require((prefix / "include" / name).exists(), header, "includes", name, "which is not installed")
    run(prefix / "bin/shade", "version")


def configure(folder, *words, fails=False):
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    return run("cmake", "-G", "Ninja", "-S", folder, "-B", build, f"-DCMAKE_CXX_COMPILER={options.compiler}",
               f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *launcher, *words, fails=fails)


def compile_examples():
    configure(source / "examples")
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = entry["command"].split()
        require(not [w for w in words if w.startswith("-W")], "our warnings reach other programs:", entry["command"])
        require(f"-I{source}" not in words, "headers come from the source tree:", entry["command"])
    run("cmake", "--build", build, "-j", os.cpu_count() or 1)


def run_path():
    """Programs find libshade_cuda.so and libshade_arrow.so where the package is, whatever other packages it found."""
    shown = run("readelf", "-d", build / "private_regression")
    found = re.search(r"R(?:UN)?PATH.*\[(.*)\]", shown)
    require(found and any(pathlib.Path(place).parent == prefix for place in found.group(1).split(":")), "no run path into", prefix, shown)


def plugin():
    """The library in a shared object, which a program without it loads."""
    place, made = work / "plugin", work / "plugin-build"
    place.mkdir()
    (place / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(plugin LANGUAGES CXX)\n"
                                          "find_package(shade 0.2 REQUIRED COMPONENTS train)\n"
                                          "add_library(plugin SHARED plugin.cpp)\ntarget_link_libraries(plugin PRIVATE shade::train)\n")
    (place / "plugin.cpp").write_text(PLUGIN)
    run("cmake", "-G", "Ninja", "-S", place, "-B", made, f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", made)
    output = run(sys.executable, "-c", f"import ctypes; train = ctypes.CDLL('{made / 'libplugin.so'}').train; train.restype = ctypes.c_double; "
                                       "print('epsilon', train())")
    spends(output, 4)


PLUGIN = """
#include <ATen/ATen.h>

#include "shade/shade.h"

struct Net : shade::Module {
  shade::nn::Linear head = add<shade::nn::Linear>("head", {.in = 4, .out = 2, .bias = true});
  at::Tensor loss(const shade::Batch& batch) override {
    return shade::nn::class_losses(head(batch.field("x")), batch.field("label"));
  }
};

extern "C" double train() {
  double epsilon = 0;
  shade::main(0, nullptr, [&](shade::World& world) {
    const auto x = at::randn({200, 4});
    const shade::InMemory records({{"x", x}, {"label", x.select(1, 0).gt(0).to(at::kLong)}});
    Net net;
    shade::Run run(world, net, records, {.budget = {{.epsilon = 4, .delta = 1e-4}}, .batch_size = 50, .steps = 20});
    run.finish();
    epsilon = run.spent()->epsilon;
  });
  return epsilon;
}
"""


def refusals():
    """What find_package must not accept."""
    other = work / "other"
    other.mkdir()
    (other / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES CXX)\n"
                                          "find_package(shade ${WANTED} REQUIRED)\n")
    for version in ("0.1", "0.3", "1.0"):
        require("compatible" in configure(other, f"-DWANTED={version}", "--fresh", fails=True), version, "was accepted")
    unknown = configure(other, "-DWANTED=0.2;COMPONENTS;trian", "--fresh", fails=True)
    require("it has no component 'trian'" in " ".join(unknown.split()), unknown)
    missing = configure(other, "-DWANTED=0.2", "-DSHADE_TORCH=/nowhere", "--fresh", fails=True)
    require("libtorch was not found" in " ".join(missing.split()), missing)
    fake = work / "torch"
    (fake / "lib").mkdir(parents=True)
    (fake / "lib/libtorch_cpu.so").touch()
    (fake / "include/torch/headeronly").mkdir(parents=True)
    (fake / "include/torch/headeronly/version.h").write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n")
    mismatch = configure(other, "-DWANTED=0.2", f"-DSHADE_TORCH={fake}", "--fresh", fails=True)
    require("is 2.9" in " ".join(mismatch.split()), mismatch)


def learns(output, factor):
    """The mean of the last quarter of the losses is below factor times the first."""
    values = [float(word) for word in re.findall(r"\bloss (\S+)", output)]
    require(len(values) >= 8, "too few losses:", output)
    last = values[-(len(values) // 4):]
    require(sum(last) / len(last) < factor * values[0], "the loss doesn't fall:", output)


def spends(output, most):
    found = re.search(r"^(?:\[0\] )?epsilon ([0-9.]+)", output, re.M)
    require(found and 0.5 * most < float(found.group(1)) <= most, "expected an epsilon of at most", most, output)


def passes(output, methods):
    """Every method was compared with the definition, and none differed."""
    rows = re.findall(r"^(?:\[0\] )?check (\S+) .* (pass|FAIL)$", output, re.M)
    require({name for name, _ in rows} >= set(methods), "methods without a check:", output)
    require(all(verdict == "pass" for _, verdict in rows), output)


def example(name, *words, ranks=1):
    print(f"{name} on {ranks} ranks", flush=True)
    return run(*([prefix / "bin/shade", "launch", "-n", ranks, "--"] if ranks > 1 else []), build / name, *words)


def private_regression():
    for ranks in (1, 2):
        output = example("private_regression", ranks=ranks)
        learns(output, 0.3)
        spends(output, 4)


def own_data():
    output = example("own_data", source / "examples/flowers.csv")
    learns(output, 0.5)
    spends(output, 4)
    broken = work / "broken.csv"
    broken.write_text("1,2,3,4,marigold\n1,2,3,4,nettle\n")
    require("broken.csv:2: 'nettle'" in run(build / "own_data", broken, fails=True), "a kind that is none was read")


def own_method():
    output = example("own_method", ranks=2)
    passes(output, ["keep_all"])
    learns(output, 0.5)
    spends(output, 4)


def own_layer():
    output = example("own_layer")
    passes(output, ["ghost", "flash", "bookkeeping", "materialize", "auto"])
    learns(output, 0.5)
    spends(output, 4)


def sharded_llama():
    """On a base model that the program has trained for some steps on public text."""
    texts, base, tuned = work / "texts", work / "base", work / "tuned"
    run(prefix / "bin/shade", "train", "--model", "llama-nano", "--from-scratch", "--task", "lm", "--hidden-dim", 32, "--num-layers", 2,
        "--num-heads", 2, "--num-kv-heads", 2, "--ffn-dim", 64, "--vocab-size", 260, "--data-folder", texts, "--sample-corpus", "256KiB",
        "--steps", 8, "--batch-size", 16, "--seq-length", 64, "--lr", "1e-3", "--eval-records", 0, "--output", work / "run", "--export", base)
    output = example("sharded_llama", base, texts, tuned, ranks=2)
    learns(output, 0.6)
    spends(output, 8)
    for name in ("config.json", "model.safetensors"):
        require((tuned / name).exists(), name, "was not exported")


EXAMPLES = [private_regression, own_data, own_method, own_layer, sharded_llama]

written = {path.stem for path in (source / "examples").glob("*.cpp")}
require(written == {check.__name__ for check in EXAMPLES}, "examples that nothing runs:", written)
install()
compile_examples()
for check in EXAMPLES:
    check()
run_path()
plugin()
refusals()
