#include "shade/cli/version.h"

#include <shade_version.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <array>
#include <ctime>
#include <thread>

#include "shade/base/error.h"
#include "shade/base/utc.h"
#include "shade/base/visible_text.h"
#include "shade/comm/backends/backends.h"
#include "shade/profile/device.h"
#include "shade/profile/placement.h"

namespace shade::cli {

std::string version() { return SHADE_VERSION; }
std::string commit() { return SHADE_COMMIT; }
std::string date() { return SHADE_DATE; }

std::string version_text() {
  return text("shade ", SHADE_VERSION, " (", SHADE_COMMIT, ", ", SHADE_BUILD, ")\n",  //
              "libtorch ", TORCH_VERSION, "\n",                                       //
              "compiler ", SHADE_COMPILER, "\n",                                      //
              "backends gloo, simulated, nccl ", comm::nccl_version(), "\n");
}

namespace {

std::string host() {
  std::array<char, 256> out{};
  return ::gethostname(out.data(), out.size() - 1) == 0 ? out.data() : "?";
}

// So that a shell reads it as one word.
std::string quoted_word(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%") ==
          std::string::npos)
    return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string command_text(const std::string& verb, const Arguments& arguments) {
  auto out = "shade " + verb;
  for (const auto& word : arguments) out += " " + quoted_word(without_folders(word));
  return out;
}

Json origin(const std::string& verb, const Arguments& arguments, c10::Device device) {
  Json out{{"libtorch", TORCH_VERSION},
           {"threads", at::get_num_threads()},
           {"cpu", profile::cpu_name()},
           {"cores", std::thread::hardware_concurrency()},
           {"date", utc_text(std::time(nullptr))},
           {"host", host()},
           {"command", command_text(verb, arguments)},
           {"shade", version()},
           {"commit", commit()}};
  if (!device.is_cpu()) out["device"] = profile::device_name(device);
  return out;
}

}  // namespace shade::cli
