// What shade doctor tries on this host: the loopback, and a private gradient and step on two ranks of the launcher.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/names.h"
#include "shade/profile/placement.h"

namespace shade::cli {

// What shade doctor finds on this host: hardware, libraries, programs and limits, each with the command that mends it.
enum class Verdict {
  ok,
  advice,  // training runs, but slower, or without a part of the program
  failed,  // training can't run
};

inline std::span<const Name<Verdict>> names_of(Verdict) {
  static constexpr Name<Verdict> kNames[] = {
      {"ok", Verdict::ok}, {"advice", Verdict::advice}, {"failed", Verdict::failed}};
  return kNames;
}

struct Check {
  std::string name, found;
  Verdict verdict = Verdict::ok;
  std::string mend;  // a command or an option; empty only if there is nothing to mend
  Json figures = Json::object();
};

// What the checks read, so that tests can describe other machines.
struct Host {
  std::filesystem::path root = "/";            // where proc, sys and dev are
  std::string search_path;                     // PATH
  bool is_root = false;                        // the user may install packages
  int64_t cores = 1;                           // that this process may run on
  int64_t open_files = 0, open_files_max = 0;  // soft and hard limit
  std::optional<int64_t> locked_bytes;         // none: unlimited
  profile::Gpus gpus;
  std::string nccl = "none";    // its version
  std::string without_cuda;     // why what needs CUDA can't be loaded; empty: it can
  std::string libtorch;         // the file that is loaded
  std::string without_parquet;  // why libshade_arrow.so can't be loaded; empty: it can

  static Host here();
};

std::vector<Check> host_checks(const Host& host);

// "apt-get install -y gnuplot-nox", by the package manager that `host` has.
std::string install_command(const Host& host, const std::string& package);

// One stream over TCP and short messages back and forth, as ranks of one host exchange them; a fraction of a second.
Check loopback_check();

// Runs `shade verify` and `shade train` of this very program as processes of their own, in a temporary folder that is
// removed. About ten seconds on an idle machine.
std::vector<Check> self_test(const profile::Gpus& gpus);

}  // namespace shade::cli
