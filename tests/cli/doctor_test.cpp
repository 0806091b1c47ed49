// shade doctor: what it says of machines that lack something, and of this one.
#include <gtest/gtest.h>

#include <filesystem>

#include "shade/base/json.h"
#include "shade/cli/self_test.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;

// A machine that lacks nothing, in the folder.
Host whole(const fs::path& root) {
  io::write_file(root / "proc/cpuinfo", "model name\t: Test 9000\nflags\t\t: fpu avx2 avx512f avx512_bf16 amx_bf16\n");
  io::write_file(root / "proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\nSwapFree: 0 kB\n");
  io::write_file(root / "proc/self/cgroup", "0::/\n");
  fs::create_directories(root / "dev/shm");
  io::write_file(root / "torch/version.py", "__version__ = '2.15.0+cpu'\n");
  io::write_file(root / "bin/gnuplot", "");
  io::write_file(root / "bin/apt-get", "");
  for (const char* program : {"bin/gnuplot", "bin/apt-get"}) fs::permissions(root / program, fs::perms::owner_all);
  return {.root = root,
          .search_path = (root / "bin").string(),
          .is_root = true,
          .cores = 8,
          .open_files = 1024,
          .open_files_max = 1048576,
          .locked_bytes = std::nullopt,
          .gpus = {},
          .nccl = "none",
          .without_cuda = "",
          .libtorch = (root / "torch/lib/libtorch_cpu.so").string(),
          .without_parquet = ""};
}

Check found(const Host& host, const std::string& name) {
  for (const auto& check : host_checks(host))
    if (check.name == name) return check;
  ADD_FAILURE() << "no line for " << name;
  return {};
}

TEST(Doctor, AWholeMachineHasNothingToMend) {
  const io::Scratch scratch;
  for (const auto& check : host_checks(whole(scratch.path()))) {
    EXPECT_EQ(check.verdict, Verdict::ok) << check.name << ": " << check.found;
    EXPECT_EQ(check.mend, "") << check.name;
    EXPECT_NE(check.found, "") << check.name;
  }
}

TEST(Doctor, EveryMissingThingHasItsRemedy) {
  const io::Scratch scratch;
  const auto expect = [&](const std::string& name, Verdict verdict, const std::string& mend, auto change) {
    fs::remove_all(scratch.path());
    auto host = whole(scratch.path());
    change(host);
    const auto check = found(host, name);
    EXPECT_EQ(check.verdict, verdict) << name << ": " << check.found;
    EXPECT_NE(check.mend.find(mend), std::string::npos) << name << ": " << check.mend;
  };
  expect("cores", Verdict::advice, "--threads 1,",
         [](Host& host) { io::write_file(host.root / "sys/fs/cgroup/cpu.max", "150000 100000\n"); });
  expect("processor", Verdict::advice, "AVX2",
         [](Host& host) { io::write_file(host.root / "proc/cpuinfo", "model name\t: Old\nflags\t\t: fpu sse2\n"); });
  expect("processor", Verdict::advice, "--dtype fp32",
         [](Host& host) { io::write_file(host.root / "proc/cpuinfo", "model name\t: Middle\nflags\t\t: fpu avx2\n"); });
  const auto memory = [](int64_t kib) {
    return [kib](Host& host) {
      io::write_file(host.root / "proc/meminfo",
                     text("MemTotal: 9999999 kB\nMemAvailable: ", kib, " kB\nSwapFree: 0 kB\n"));
    };
  };
  expect("memory", Verdict::advice, "--micro-batch 1", memory(2 << 20));
  expect("memory", Verdict::failed, "free memory", memory(200 << 10));
  expect("GPUs", Verdict::advice, "CUDA_VISIBLE_DEVICES", [](Host& host) { host.gpus.installed = 2; });
  expect("GPUs", Verdict::advice, "build it", [](Host& host) {
    host.gpus.installed = 2;
    host.without_cuda = "libshade_cuda.so was not loaded; build it";
  });
  expect("NCCL", Verdict::advice, "nccl", [](Host& host) { host.gpus.installed = 2; });
  expect("libtorch", Verdict::failed, "pip install 'torch==2.15.*'",
         [](Host& host) { io::write_file(host.root / "torch/version.py", "__version__ = '2.14.1'\n"); });
  expect("gnuplot", Verdict::advice, "apt-get install -y gnuplot-nox",
         [](Host& host) { fs::remove(host.root / "bin/gnuplot"); });
  expect("gnuplot", Verdict::advice, "sudo apt-get", [](Host& host) {
    fs::remove(host.root / "bin/gnuplot");
    host.is_root = false;
  });
  expect("gnuplot", Verdict::advice, "conda install", [](Host& host) { host.search_path = ""; });
  expect("Parquet", Verdict::advice, "bootstrap arrow",
         [](Host& host) { host.without_parquet = "tools/bootstrap arrow"; });
  expect("open files", Verdict::advice, "ulimit -n", [](Host& host) { host.open_files_max = 512; });
  expect("shared memory", Verdict::advice, "--shm-size", [](Host& host) {
    fs::remove_all(host.root / "dev");
    host.gpus = {.installed = 2, .visible = 2, .built = true};
  });
  expect("locked memory", Verdict::advice, "memlock", [](Host& host) {
    host.locked_bytes = 65536;
    host.gpus = {.installed = 2, .visible = 2, .built = true};
  });
}

test::Outcome doctor(std::vector<std::string> words, const test::RunOptions& options = {}) {
  words.insert(words.begin(), {test::shade_binary(), "doctor"});
  return test::run(words, options);
}

TEST(Doctor, TrainsOnThisMachineAndSaysSo) {
  const io::Scratch scratch;
  const auto file = (scratch.path() / "doctor.json").string();
  // As a task of a job: the ranks of the self-test are its own.
  const auto seen =
      doctor({"--json", file},
             {.environment = {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"TMPDIR", scratch.path().string()}},
              .limit = Seconds(600)});
  ASSERT_EQ(seen.status, 0) << seen.output;
  const auto json = read_json(file);
  EXPECT_EQ(json["can_train"], true);
  const auto line = [&](const std::string& name) {
    for (const auto& check : json["checks"])
      if (check["name"] == name) return check;
    ADD_FAILURE() << name;
    return Json();
  };
  EXPECT_GT(line("cores")["figures"]["usable"], 0);
  EXPECT_GT(line("memory")["figures"]["available_bytes"], 0);
  EXPECT_GT(line("loopback")["figures"]["bytes_per_second"], 1e6);
  EXPECT_EQ(line("libtorch")["verdict"], "ok");
  EXPECT_GE(line("private gradient")["figures"]["cases"], 7) << "every clipping method";
  EXPECT_EQ(line("private gradient")["figures"]["wrong"], 0);
  EXPECT_GT(line("private step")["figures"]["epsilon"], 0);
  for (const auto& check : json["checks"]) {
    EXPECT_NE(seen.output.find(check["found"].get<std::string>()), std::string::npos) << check;
    EXPECT_EQ(check["verdict"] == "ok", !check.contains("mend")) << check;
  }
  for (const auto& left : fs::directory_iterator(scratch.path()))
    EXPECT_EQ(left.path().filename(), "doctor.json") << "the self-test removes its folder";
}

TEST(Doctor, ASelfTestThatCannotRunIsAFailure) {
  const auto missing = doctor({}, {.environment = {{"TMPDIR", "/nonexistent"}}, .limit = Seconds(600)});
  EXPECT_EQ(missing.status, 1) << missing.output;
  EXPECT_NE(missing.output.find("failed  self-test"), std::string::npos) << missing.output;
  EXPECT_NE(missing.output.find("Training can't run on this machine"), std::string::npos) << missing.output;
}

TEST(Doctor, WithoutALoopbackTrainingCannotRun) {
  if (test::run({"unshare", "-n", "true"}).status != 0) GTEST_SKIP() << "no network namespaces";
  const auto seen = test::run({"unshare", "-n", test::shade_binary(), "doctor", "--self-test", "false"});
  EXPECT_EQ(seen.status, 1) << seen.output;
  EXPECT_NE(seen.output.find("-> ip link set lo up"), std::string::npos) << seen.output;
}

TEST(Doctor, PicturesAreNotNeededForTraining) {
  const auto seen = doctor({"--self-test", "false"}, {.environment = {{"PATH", "/nonexistent"}}});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("not in PATH; shade report draws no pictures"), std::string::npos) << seen.output;
  EXPECT_EQ(seen.output.find("private step"), std::string::npos) << seen.output;
  EXPECT_EQ(doctor({"--ranks", "2"}).status, 2);
}

}  // namespace
}  // namespace shade::cli
