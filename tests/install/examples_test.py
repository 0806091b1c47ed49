"""Installs the build to a folder of its own, builds examples/ with find_package(shade) and runs each of them.

usage: examples_test.py --source ROOT --build BUILD --compiler CXX
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

parser = argparse.ArgumentParser()
for name in ("--source", "--build", "--compiler"):
    parser.add_argument(name, required=True)
options = parser.parse_args()
source, work = pathlib.Path(options.source), pathlib.Path(options.build) / "installed"
prefix, build = work / "prefix", work / "examples"


def run(*command, fails=False, folder=None):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", cwd=folder)
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
    shown = run("readelf", "-d", build / "private_training")
    found = re.search(r"R(?:UN)?PATH.*\[(.*)\]", shown)
    require(found and any(pathlib.Path(place).parent == prefix for place in found.group(1).split(":")), "no run path into", prefix, shown)


def project(name, components, source, target="shade::train"):
    """-> the folder of a project with one program, and where it is built."""
    place = work / name
    place.mkdir()
    (place / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject({name} LANGUAGES CXX)\n"
                                          f"find_package(shade 0.2 REQUIRED COMPONENTS {components})\n"
                                          f"add_executable({name} {name}.cpp)\ntarget_link_libraries({name} PRIVATE {target})\n")
    (place / f"{name}.cpp").write_text(source)
    return place, work / f"{name}-build"


def linked_with(program):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", program))


def parts_alone():
    """Each with its own dependencies: accounting with none, weights with libtorch alone; by CMake and by pkg-config."""
    place, made = project("spends", "accounting", ACCOUNTING, "shade::accounting")
    run("cmake", "-G", "Ninja", "-S", place, "-B", made, f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DSHADE_TORCH=/nowhere", "-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON")
    run("cmake", "--build", made)
    spends(run(made / "spends"), 3)
    others = [name for name in linked_with(made / "spends") if not re.match(r"lib(stdc\+\+|m|gcc_s|c)\.so|ld-linux", name)]
    require(not others, "accounting needs", others)

    place, made = project("weights", "io", WEIGHTS, "shade::io")
    run("cmake", "-G", "Ninja", "-S", place, "-B", made, f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON")
    run("cmake", "--build", made)
    require("12 numbers" in run(made / "weights", work / "w.safetensors"), "the file was not read again")

    place, made = project("plans", "plan", PLAN, "shade::plan")
    run("cmake", "-G", "Ninja", "-S", place, "-B", made, f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", made)
    told = json.loads(run(prefix / "bin/shade", "plan", "--model", "llama3-8b", "--lora-rank", 16, "--dp", "auto", "--shard", "zero3", "--ranks", 8,
                          "--device-profile", "h100-80g", "--json", work / "plan.json") and (work / "plan.json").read_text())
    peak, seconds, refusal = run(made / "plans").splitlines()
    require(float(peak) == told["rows"][0]["peak_memory_mb"], "another peak than the program's:", peak)
    require(abs(1e3 * float(seconds) - told["rows"][0]["avg_time_ms"]) < 1e-6, "another time than the program's:", seconds)
    require("shard.shart" in refusal and "did you mean" in refusal, "no such option, and no word about it:", refusal)

    os.environ["PKG_CONFIG_PATH"] = str(prefix / "lib/pkgconfig")
    flags = run("pkg-config", "--cflags", "--libs", "shade-accounting").split()
    run(options.compiler, "-std=c++20", work / "spends/spends.cpp", "-o", work / "by_pkg_config", *flags)
    spends(run(work / "by_pkg_config"), 3)
    for name in (path.stem for path in (prefix / "lib/pkgconfig").glob("shade-*.pc")):
        run("pkg-config", "--exists", "--print-errors", name)


ACCOUNTING = """
#include <cstdio>
#include <vector>

#include "shade/accounting/accountant.h"
#include "shade/version.h"

int main() {
  static_assert(SHADE_VERSION_NUMBER >= 200);
  const shade::privacy::Mechanism mechanism{.sample_rate = 0.01, .noise_multiplier = 1.1};
  const auto spent = shade::privacy::spent(shade::privacy::Accountant::prv, std::vector{shade::privacy::Steps{mechanism, 1000}}, 1e-5);
  std::printf("epsilon %f\\n", spent.epsilon);
}
"""

PLAN = """
#include <cstdio>

#include "shade/base/error.h"
#include "shade/plan/plan.h"

int main() {
  shade::plan::PlanOptions options{
      .options = {{"model.model", "llama3-8b"}, {"model.lora_rank", "16"}, {"dp.dp", "auto"}, {"shard.shard", "zero3"}},
      .ranks = 8,
      .device_profile = "h100-80g"};
  const auto step = shade::plan::plan_step(options);
  std::printf("%.17g\\n%.17g\\n", static_cast<double>(step.peak.count) / 1048576, step.time->count());
  options.options["shard.shart"] = "zero3";
  try {
    shade::plan::plan_step(options);
  } catch (const shade::Error& fault) {
    std::printf("%s\\n", fault.what());
  }
}
"""

WEIGHTS = """
#include <ATen/ATen.h>

#include <cstdio>

#include "shade/io/safetensors.h"
#include "shade/io/safetensors_writer.h"

int main(int, char** argv) {
  const auto value = at::arange(12, at::kFloat).view({3, 4});
  shade::io::write_safetensors(argv[1], {{"w", value}});
  const auto file = shade::io::SafetensorsFile(argv[1]);
  if (!at::equal(file.tensor("w"), value)) return 1;
  std::printf("%d numbers\\n", static_cast<int>(file.tensor("w").numel()));
}
"""


def as_subdirectory():
    """The library inside another project, which needs neither CLI11 nor jemalloc."""
    place = work / "whole"
    place.mkdir()
    (place / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(whole LANGUAGES CXX)\n"
                                          f'add_subdirectory("{source}" shade)\nadd_executable(spends "{work}/spends/spends.cpp")\n'
                                          "target_link_libraries(spends PRIVATE shade::accounting)\n")
    run("cmake", "-G", "Ninja", "-S", place, "-B", work / "whole-build", f"-DCMAKE_CXX_COMPILER={options.compiler}", "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON")
    run("cmake", "--build", work / "whole-build", "--target", "spends")
    spends(run(work / "whole-build/spends"), 3)


def killed(program, ranks, folder, result):
    """Kills all ranks at some step, and starts again until a start ends by itself; -> how often it was killed."""
    command = [prefix / "bin/shade", "launch", "-n", ranks, "--"] if ranks > 1 else []
    for kills, last in enumerate((5, 11, 16, 1000)):
        job = subprocess.Popen([str(word) for word in [*command, program, folder, result]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
        for line in job.stdout:
            found = re.search(r"step (\d+) loss", line)
            if found and int(found.group(1)) >= last:
                os.killpg(job.pid, signal.SIGKILL)
                break
        _, errors = job.communicate()
        if job.returncode == 0:
            return kills
        require(last < 1000, "the last start failed:", errors)


def continues():
    """Two programs by the build's compiler and by GCC, killed thrice: their weights are those of an uninterrupted run."""
    for compiler in (options.compiler, "g++"):
        made = work / f"programs-{pathlib.Path(compiler).name}"
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        run("cmake", "-G", "Ninja", "-S", source / "tests/install/programs", "-B", made, f"-DCMAKE_CXX_COMPILER={compiler}",
            f"-DCMAKE_PREFIX_PATH={prefix}", *launcher)
        run("cmake", "--build", made)
        for name in ("users", "records"):
            for ranks in (1, 2):
                whole, parts = work / f"{made.name}-{name}-{ranks}-whole", work / f"{made.name}-{name}-{ranks}-parts"
                run(*([prefix / "bin/shade", "launch", "-n", ranks, "--"] if ranks > 1 else []), made / name, whole / "run", whole / "out")
                kills = killed(made / name, ranks, parts / "run", parts / "out")
                weights = [(place / "out/model.safetensors").read_bytes() for place in (whole, parts)]
                require(kills == 3, "killed", kills, "times; expected 3")
                require(weights[0] == weights[1], compiler, name, "on", ranks, "ranks: other weights after", kills, "kills")
                print(f"{name} by {compiler} on {ranks} ranks: {kills} kills, the same weights", flush=True)


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
    place = work / f"{name}-{ranks}"
    place.mkdir(exist_ok=True)
    return run(*([prefix / "bin/shade", "launch", "-n", ranks, "--"] if ranks > 1 else []), build / name, *words, folder=place)


def private_training():
    for ranks in (1, 2):
        output = example("private_training", ranks=ranks)
        learns(output, 0.8)
        spends(output, 4)
        require((work / f"private_training-{ranks}/trained/model.safetensors").exists(), "nothing was exported")
        require("loss" not in example("private_training", ranks=ranks), "a run that has ended makes further steps")


def own_data():
    output = example("own_data", source / "examples/flowers.csv", "run")
    learns(output, 0.7)
    spends(output, 8)
    require("step 60 of 60 was made before" in example("own_data", source / "examples/flowers.csv", "run"), "it begins again")
    broken = work / "broken.csv"
    broken.write_text("1,2,3,4,marigold,a\n1,2,3,4,nettle,b\n")
    require("broken.csv:2: 'nettle'" in run(build / "own_data", broken, work / "nowhere", fails=True), "a kind that is none was read")


def plugin():
    """Of a program that links nothing of Shade."""
    require(not [name for name in linked_with(build / "plugin_host") if "torch" in name], "the host is linked with libtorch")
    spends(example("plugin_host", build / "libplugin.so"), 4)


def plugin_host():
    pass  # above


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
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        require((tuned / name).exists(), name, "was not exported")


EXAMPLES = [private_training, own_data, own_method, own_layer, sharded_llama, plugin, plugin_host]

written = {path.stem for path in (source / "examples").glob("*.cpp")}
require(written == {check.__name__ for check in EXAMPLES}, "examples that nothing runs:", written)
install()
compile_examples()
for check in EXAMPLES:
    check()
run_path()
parts_alone()
as_subdirectory()
continues()
refusals()
