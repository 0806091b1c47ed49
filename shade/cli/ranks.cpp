#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/comm/errors.h"
#include "shade/io/errors.h"
#include "shade/profile/placement.h"

namespace shade::cli {
namespace {

// Set for ranks whose launcher prints an error that all of them find, once.
constexpr const char* kLauncherSpeaks = "SHADE_LAUNCHER_SPEAKS";

// How such a rank ends if a file is wrong: all ranks found the same, and the launcher prints it. The user sees
// status 1.
constexpr int kFileStatus = 3;

}  // namespace

comm::Place expected_place(const CommandLine& line) {
  auto place = comm::place_from_environment();
  if (place.origin == "alone") place.size = place.local_size = line.ranks.value_or(1);
  return place;
}

Fact ranks_fact(const comm::Place& place) {
  constexpr int kSome = 2;
  return shade::ranks_fact(place.origin == "alone" ? place.size : kSome);
}

bool starts_ranks(const std::optional<int>& ranks) {
  return ranks && *ranks > 1 && comm::place_from_environment().origin == "alone";
}

std::optional<int> start_ranks(const CommandLine& line, const std::string& verb, const Arguments& arguments,
                               const comm::CommConfig& config) {
  if (!starts_ranks(line.ranks)) return std::nullopt;  // in a world in_world checks the size
  comm::LaunchOptions options{.ranks = *line.ranks,
                              .command = {"/proc/self/exe", verb},
                              .environment = {{kLauncherSpeaks, "1"}},
                              .peer_timeout = config.peer_timeout,
                              .pass_rank0 = true};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  const auto result = comm::launch(options);
  if (result.status == kUsageStatus && result.first && !result.first->told.empty())
    throw UsageError(result.first->told);
  if (result.status == kFileStatus && result.first && !result.first->told.empty()) throw Error(result.first->told);
  const auto status = report(result);
  return status == kFileStatus ? 1 : status;
}

void use_threads(int64_t wanted, const comm::Place& place, c10::Device device) {
  const int64_t cores = std::thread::hardware_concurrency(), all = wanted * place.local_size;
  if (place.rank == 0 && cores > 0 && all > cores)
    log::warning(
        "--threads ", wanted, place.local_size > 1 ? text(" on ", place.local_size, " ranks of a host") : "", ": ", all,
        " threads share ", cores, cores == 1 ? " core" : " cores", " and slow each other down; choose at most ",
        cores < place.local_size ? text(cores, cores == 1 ? " rank" : " ranks", " of a host (--ranks ", cores, ")")
                                 : std::to_string(cores / place.local_size));
  if (wanted > 0)
    at::set_num_threads(static_cast<int>(wanted));
  else if (place.size > 1)
    at::set_num_threads(device.is_cpu() ? 1 : static_cast<int>(std::max<int64_t>(1, cores / place.local_size)));
}

void in_world(std::optional<int> stated_ranks, const comm::CommConfig& config,
              const std::function<void(comm::World&)>& body) {
  const auto place = comm::place_from_environment(stated_ranks);
  auto world = comm::World::connect(place, config, {.overdue = [](const comm::Loss& loss) {
                                      std::fprintf(stderr, "shade: %s\n", visible_lines(loss.message).c_str());
                                      std::_Exit(loss.exit_status());
                                    }});
  try {
    body(world);
  } catch (const UsageError& fault) {
    world.fail(std::current_exception());
    if (std::getenv(kLauncherSpeaks) != nullptr) throw Told{kUsageStatus};
    throw RankUsageError(fault.what());
  } catch (const io::FormatError&) {
    world.fail(std::current_exception());
    if (std::getenv(kLauncherSpeaks) != nullptr) throw Told{kFileStatus};
    throw;
  } catch (...) {
    world.fail(std::current_exception());
    throw;
  }
  world.leave();
}

bool on_gpus(const comm::CommConfig& config) {
  return config.backend == comm::BackendKind::automatic ? comm::nccl_devices() > 0
                                                        : config.backend == comm::BackendKind::nccl;
}

void say_device(const comm::World& world) {
  if (world.rank() != 0) return;
  std::printf("device: %s\n", visible(profile::describe_device(world.device(), world.place().local_size)).c_str());
}

int report(const comm::LaunchResult& result) {
  if (!result.first) return result.status;
  const auto headline = result.first->rank < 0
                            ? result.first->reason
                            : text("rank ", result.first->rank, " failed first: ", result.first->reason);
  std::fprintf(stderr, "%s %s\n", coloured("shade:", Colour::red, stderr).c_str(), visible_lines(headline).c_str());
  if (!result.positions.empty())
    std::fprintf(stderr, "  where the ranks were: %s\n", visible(result.positions).c_str());
  return result.status;
}

}  // namespace shade::cli
