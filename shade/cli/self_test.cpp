#include "shade/cli/self_test.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <thread>

#include "shade/base/cuda_library.h"
#include "shade/base/program_path.h"
#include "shade/base/temporary_folder.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/comm/backends/backends.h"
#include "shade/comm/job/forget_place.h"
#include "shade/data/arrow/arrow_library.h"
#include "shade/measure/runner.h"
#include "shade/profile/host_memory.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;

constexpr Seconds kLimit{300};  // of each command; an idle machine takes a few seconds

constexpr const char* kRepeat = "repeat it and read its output: shade ";

struct Ran {
  Check check;
  Json result;  // null if it failed
};

// The line that names the fault; `otherwise` if there is none.
std::string complaint(const fs::path& log, const std::string& verb, const std::string& otherwise) {
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);)
    if (line.find(text("shade ", verb, ": ")) != std::string::npos || line.find("failed first") != std::string::npos)
      return line;
  return otherwise;
}

Ran ran(const std::string& name, const std::vector<std::string>& words, const fs::path& log, const fs::path& json) {
  std::vector<std::string> command{"/proc/self/exe"};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--json", json.string()});
  const auto begin = Clock::now();
  const auto outcome = measure::run_isolated({.command = command, .log = log, .limit = kLimit});
  const Seconds took = Clock::now() - begin;
  Ran out{.check = {.name = name, .figures = {{"seconds", took.count()}}}, .result = nullptr};
  if (fs::exists(json)) out.result = read_json(json);
  if (outcome.ok) {
    out.check.found = to_string(took);
    return out;
  }
  out.check.verdict = Verdict::failed;
  out.check.found = visible(complaint(log, words.front(), outcome.reason), 400);
  const bool late = took >= kLimit;
  out.check.mend = text(late ? "close other programs and repeat it: shade " : kRepeat, join(words, " "));
  return out;
}

Check gradients(const std::vector<std::string>& where, const TemporaryFolder& folder) {
  std::vector<std::string> words{"verify",  "--model", "llama-nano",   "--dtype", "fp32",
                                 "--shard", "zero3",   "--clip-style", "flat"};
  words.insert(words.end(), where.begin(), where.end());
  auto [out, result] = ran("private gradient", words, folder / "verify.log", folder / "verify.json");
  if (result.is_null()) return out;
  size_t wrong = 0;
  std::string methods;
  for (const auto& row : result["rows"])
    if (!row["pass"].get<bool>()) {
      ++wrong;
      methods += text(methods.empty() ? "" : ", ", row["method"].get<std::string>());
    }
  const auto cases = result["rows"].size();
  out.figures["cases"] = cases;
  out.figures["wrong"] = wrong;
  out.found = wrong == 0 ? text(cases, " clipping methods equal one sample at a time, 2 ranks, ", out.found)
                         : text(wrong, " of ", cases, " clipping methods are wrong: ", visible(methods, 200));
  return out;
}

Check step(const std::vector<std::string>& where, const TemporaryFolder& folder) {
  std::vector<std::string> words{"train",
                                 "--model",
                                 "llama-nano",
                                 "--from-scratch",
                                 "--synthetic",
                                 "--dp",
                                 "auto",
                                 "--sigma",
                                 "1",
                                 "--delta",
                                 "1e-2",
                                 "--train.records",
                                 "32",
                                 "--batch-size",
                                 "8",
                                 "--steps",
                                 "1",
                                 "--seq",
                                 "16",
                                 "--shard",
                                 "zero3",
                                 "--max-grad-norm",
                                 "1"};
  words.insert(words.end(), where.begin(), where.end());
  const auto shown = words;
  words.insert(words.end(), {"--output", (folder / "run").string()});
  auto [out, result] = ran("private step", words, folder / "train.log", folder / "train.json");
  if (out.verdict != Verdict::ok) {
    out.mend = text(kRepeat, join(shown, " "));
    return out;
  }
  SHADE_REQUIRE(result.contains("epsilon"), "the private step reported no epsilon");
  const double epsilon = result["epsilon"].get<double>();
  out.figures["epsilon"] = epsilon;
  out.found = text("epsilon ", rounded_up(epsilon), " at delta 0.01, 2 ranks, ", out.found);
  return out;
}

}  // namespace

std::vector<Check> self_test(const profile::Gpus& gpus) {
  // The ranks are the launcher's, also where this process is a task of Slurm or mpirun.
  comm::forget_place();
  std::vector<std::string> where{"--ranks", "2"};
  if (gpus.visible < 2) where.insert(where.end(), {"--device", "cpu"});
  try {
    const TemporaryFolder folder("shade_doctor");
    return {gradients(where, folder), step(where, folder)};
  } catch (const std::exception& fault) {
    return {{.name = "self-test",
             .found = visible(fault.what(), 400),
             .verdict = Verdict::failed,
             .mend = "run shade verify --ranks 2 and read its output"}};
  }
}

namespace {

namespace fs = std::filesystem;

constexpr Bytes kLeastMemory = MiB(512);  // the self-test's two ranks take about half of it
constexpr Bytes kSmallMemory = GiB(4);
constexpr Bytes kLeastShared = MiB(256);  // NCCL's buffers of eight ranks on a host
constexpr int64_t kFewFiles = 1024;       // the launcher raises the soft limit up to the hard one

// What follows the colon in the first line that begins with `key`.
std::string line_of(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key))
      if (const auto colon = line.find(':'); colon != std::string::npos)
        return std::string(trim(std::string_view(line).substr(colon + 1)));
  return "";
}

// Cores' worth of time that the control group gives this process ("150000 100000"); none: no limit.
std::optional<double> quota(const fs::path& root) {
  std::ifstream in(root / "sys/fs/cgroup/cpu.max");
  double time = 0, period = 0;
  return in >> time >> period && period > 0 ? std::optional(time / period) : std::nullopt;
}

Check cores(const Host& host) {
  const int64_t all = std::max<int64_t>(host.cores, std::thread::hardware_concurrency());
  Check out{.name = "cores",
            .found = text(host.cores, host.cores == 1 ? " core" : " cores"),
            .figures = {{"usable", host.cores}, {"quota", nullptr}}};
  if (const auto share = quota(host.root); share && *share < static_cast<double>(host.cores)) {
    out.figures["quota"] = *share;
    out.found += text(", limited to the time of ", significant(*share), " by the control group");
    out.verdict = Verdict::advice;
    out.mend = text("use --threads ", std::max<int64_t>(1, std::llround(std::floor(*share))),
                    ", or start the container with --cpus ", host.cores);
  } else if (host.cores < all && host.root == "/") {
    out.found += text(" of ", all, " (this process is bound to them)");
  }
  return out;
}

Check instructions(const Host& host) {
  const auto words = split(line_of(host.root / "proc/cpuinfo", "flags"), ' ');
  const std::set<std::string> flags(words.begin(), words.end());
  const auto model = line_of(host.root / "proc/cpuinfo", "model name");
  Check out{.name = "processor", .found = model.empty() ? "unknown model" : model};
  std::vector<std::string> shown;
  for (const auto& [flag, name] :
       {std::pair{"avx2", "AVX2"}, {"avx512f", "AVX-512"}, {"avx512_bf16", "AVX-512 BF16"}, {"amx_bf16", "AMX BF16"}}) {
    out.figures[flag] = flags.contains(flag);
    if (flags.contains(flag)) shown.emplace_back(name);
  }
  out.figures["libtorch"] = at::get_cpu_capability();
  out.found += text("; ", shown.empty() ? "no AVX2" : join(shown, ", "));
  if (!flags.contains("avx2")) {
    out.verdict = Verdict::advice;
    out.mend = "use a machine with AVX2 (x86-64-v3): libtorch's portable kernels are several times slower";
  } else if (!flags.contains("avx512_bf16") && !flags.contains("amx_bf16")) {
    out.found += "; bf16 is emulated";
    out.verdict = Verdict::advice;
    out.mend = "use --dtype fp32 on CPUs: without AVX-512 BF16 or AMX, bf16 saves memory but not time";
  }
  return out;
}

Check memory(const Host& host) {
  const auto left = profile::host_memory(host.root);
  Check out{.name = "memory",
            .found = text(to_string(left.available), " available of ", to_string(left.total), "; swap ",
                          left.swap.count == 0 ? "none" : to_string(left.swap)),
            .figures = {{"available_bytes", left.available.count},
                        {"total_bytes", left.total.count},
                        {"swap_free_bytes", left.swap.count}}};
  if (left.available < kSmallMemory) {
    out.verdict = left.available < kLeastMemory ? Verdict::failed : Verdict::advice;
    out.mend =
        "free memory or raise the limit of the container; options that save it: --shard zero3 --micro-batch 1 "
        "--checkpointing block --offload";
  }
  return out;
}

Check gpus(const Host& host) {
  const auto& here = host.gpus;
  Check out{.name = "GPUs",
            .found = text(here.installed, " installed, ", here.visible, " usable"),
            .figures = {{"installed", here.installed}, {"usable", here.visible}}};
  if (here.installed == 0 && here.visible == 0) {
    out.found = "none; training runs on the CPU";
  } else if (here.visible == 0) {
    out.verdict = Verdict::advice;
    out.mend = host.without_cuda.empty()
                   ? "unset CUDA_VISIBLE_DEVICES, and see whether nvidia-smi shows a driver of CUDA 13 (580 or newer)"
                   : host.without_cuda;
  }
  return out;
}

Check nccl(const Host& host) {
  Check out{.name = "NCCL", .found = host.nccl, .figures = {{"version", host.nccl}}};
  if (host.nccl != "none") return out;
  out.found = host.gpus.installed == 0 ? "not loaded; not needed without GPUs" : "not loaded";
  if (host.gpus.installed == 0) return out;
  out.verdict = Verdict::advice;
  out.mend = host.without_cuda.empty() ? "pip install nvidia-nccl-cu13" : host.without_cuda;
  return out;
}

// version.py of the wheel that the library is in; empty: there is none.
std::string installed_torch(const fs::path& library) {
  std::ifstream in(library.parent_path().parent_path() / "version.py");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("__version__")) {
      const auto from = line.find_first_of("'\""), to = line.find_last_of("'\"");
      if (from != std::string::npos && to > from) return line.substr(from + 1, to - from - 1);
    }
  return "";
}

Check libtorch(const Host& host) {
  const std::string wanted = text(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, "."),
                    found = installed_torch(host.libtorch);
  Check out{
      .name = "libtorch",
      .found = text(found.empty() ? TORCH_VERSION : found, " in ", fs::path(host.libtorch).parent_path().string()),
      .figures = {{"built_for", TORCH_VERSION}, {"found", found}}};
  if (!found.empty() && !found.starts_with(wanted)) {
    out.found += text("; built for ", TORCH_VERSION);
    out.verdict = Verdict::failed;
    out.mend = text("pip install 'torch==", wanted, "*'");
  }
  return out;
}

Check gnuplot(const Host& host) {
  const bool there = program_in(host.search_path, "gnuplot").has_value();
  Check out{.name = "gnuplot",
            .found = there ? "found" : "not in PATH; shade report draws no pictures",
            .figures = {{"found", there}}};
  if (there) return out;
  out.verdict = Verdict::advice;
  out.mend = install_command(host, "gnuplot-nox");
  return out;
}

Check parquet(const Host& host) {
  const bool there = host.without_parquet.empty();
  Check out{.name = "Parquet",
            .found = there ? "libshade_arrow.so is loaded" : "not available: .parquet and .arrow",
            .figures = {{"found", there}}};
  if (there) return out;
  out.verdict = Verdict::advice;
  out.mend = text("convert such files to .jsonl; with the wheel, pip install 'shade-dp[parquet]'; otherwise: ",
                  host.without_parquet);
  return out;
}

Check files(const Host& host) {
  Check out{.name = "open files",
            .found = text("limit ", host.open_files, ", may be raised to ", host.open_files_max),
            .figures = {{"soft", host.open_files}, {"hard", host.open_files_max}}};
  if (host.open_files_max >= kFewFiles) return out;
  out.verdict = Verdict::advice;
  out.mend = "ulimit -n 65536 as root, or LimitNOFILE=65536 (systemd), or docker run --ulimit nofile=65536";
  return out;
}

// Gloo needs neither shared nor locked memory; NCCL takes both.
Check shared(const Host& host) {
  struct statvfs system{};
  const auto folder = host.root / "dev/shm";
  const bool there = ::statvfs(folder.c_str(), &system) == 0;
  const Bytes left{there ? static_cast<int64_t>(system.f_bavail * system.f_frsize) : 0};
  Check out{.name = "shared memory",
            .found = there ? text(to_string(left), " free in /dev/shm") : "no /dev/shm",
            .figures = {{"free_bytes", left.count}}};
  if (left >= kLeastShared || host.gpus.visible == 0) return out;
  out.verdict = Verdict::advice;
  out.mend = "mount -o remount,size=2G /dev/shm as root, or docker run --shm-size 2g: NCCL exchanges through it";
  return out;
}

Check locked(const Host& host) {
  Check out{.name = "locked memory",
            .found = host.locked_bytes ? text("limit ", to_string(Bytes{*host.locked_bytes})) : "unlimited",
            .figures = {{"bytes", host.locked_bytes ? Json(*host.locked_bytes) : Json(nullptr)}}};
  if (!host.locked_bytes || host.gpus.visible == 0) return out;
  out.verdict = Verdict::advice;
  out.mend = "ulimit -l unlimited as root, or docker run --ulimit memlock=-1: NCCL over InfiniBand needs it";
  return out;
}

}  // namespace

Host Host::here() {
  Host out;
  out.search_path = shade::search_path();
  out.is_root = ::geteuid() == 0;
  cpu_set_t set;
  out.cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : std::max(1U, std::thread::hardware_concurrency());
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  out.open_files = static_cast<int64_t>(limit.rlim_cur);
  out.open_files_max = static_cast<int64_t>(limit.rlim_max);
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur != RLIM_INFINITY) out.locked_bytes = static_cast<int64_t>(limit.rlim_cur);
  out.gpus = profile::gpus_here();
  out.nccl = comm::nccl_version();
  out.without_cuda = CudaLibrary::get().why_not();
  Dl_info place{};
  if (::dladdr(reinterpret_cast<void*>(&at::get_cpu_capability), &place) != 0 && place.dli_fname != nullptr)
    out.libtorch = place.dli_fname;
  out.without_parquet = data::arrow_library().why_not();
  return out;
}

std::string install_command(const Host& host, const std::string& package) {
  const std::string sudo = host.is_root ? "" : "sudo ";
  for (const auto& [program, words] : {std::pair{"apt-get", "install -y"},
                                       {"dnf", "install -y"},
                                       {"zypper", "install -y"},
                                       {"apk", "add"},
                                       {"pacman", "-S"}})
    if (program_in(host.search_path, program)) {
      // Only Debian has the package without a window system under a separate name.
      const auto name = std::string_view(program) == "apt-get" ? package : package.substr(0, package.find('-'));
      return text(sudo, program, " ", words, " ", name);
    }
  return text("conda install -c conda-forge ", package.substr(0, package.find('-')));
}

std::vector<Check> host_checks(const Host& host) {
  return {cores(host),   instructions(host), memory(host), gpus(host),   nccl(host),  libtorch(host),
          gnuplot(host), parquet(host),      files(host),  shared(host), locked(host)};
}

}  // namespace shade::cli
