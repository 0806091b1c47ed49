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


def refusals():
    """What find_package must not accept."""
    other = work / "other"
    other.mkdir()
    (other / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES CXX)\n"
                                          "find_package(shade ${WANTED} REQUIRED)\n")
    for version in ("0.1", "0.3", "1.0"):
        require("compatible" in configure(other, f"-DWANTED={version}", "--fresh", fails=True), version, "was accepted")
    missing = configure(other, "-DWANTED=0.2", "-DSHADE_TORCH=/nowhere", "--fresh", fails=True)
    require("libtorch was not found" in " ".join(missing.split()), missing)
    fake = work / "torch"
    (fake / "lib").mkdir(parents=True)
    (fake / "lib/libtorch_cpu.so").touch()
    (fake / "include/torch/headeronly").mkdir(parents=True)
    (fake / "include/torch/headeronly/version.h").write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 9\n")
    mismatch = configure(other, "-DWANTED=0.2", f"-DSHADE_TORCH={fake}", "--fresh", fails=True)
    require("is 2.9" in " ".join(mismatch.split()), mismatch)


def losses(output):
    return [float(word) for word in re.findall(r"\bloss (\S+)", output)]


def learns(output, factor):
    """Mean of the last quarter of the losses against the first loss."""
    values = losses(output)
    require(len(values) >= 8, "too few losses:", output)
    last = values[-(len(values) // 4):]
    require(sum(last) / len(last) < factor * values[0], "the loss doesn't fall:", output)


def spends(output):
    epsilon = re.search(r"epsilon ([0-9.]+)", output)
    require(epsilon and 0 < float(epsilon.group(1)) < 20, "no epsilon:", output)


def run_examples():
    launch = [prefix / "bin/shade", "launch", "-n", 2, "--"]
    for name, ranks, check in EXAMPLES:
        check(run(*(launch if ranks > 1 else []), build / name))
        print(f"{name}: as expected on {ranks} ranks")


EXAMPLES = [
    ("sharded_training", 2, lambda out: learns(out, 0.9)),
]

install()
compile_examples()
run_examples()
refusals()
built = {path.name.removesuffix(".cpp") for path in (source / "examples").glob("*.cpp")}
require(built == {name for name, _, _ in EXAMPLES}, "examples that are not run:", built)
