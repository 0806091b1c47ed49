// Starting again after a failure.
#include "shade/comm/job/launch.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/comm/job/start.h"

namespace shade::comm {
namespace {

void check(const LaunchOptions& options) {
  SHADE_REQUIRE(options.ranks >= 1 && options.ranks <= 4096, "cannot start ", options.ranks,
                " ranks on one host; expected 1 to 4096");
  SHADE_REQUIRE(!options.command.empty(), "nothing to launch; expected a command after --");
  SHADE_REQUIRE(options.min_ranks <= options.ranks, "at least ", options.min_ranks, " of ", options.ranks,
                " ranks are wanted; expected at most all");
}

// Not if it was we who were asked to end, nor after a wrong option or file, which would be as wrong again.
bool may_be_repeated(const LaunchResult& result) {
  return result.first && result.first->rank >= 0 && result.status != 2;
}

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  check(options);
  auto attempt = options;
  for (int restart = 0;; ++restart) {
    auto result = start_ranks(attempt, restart);
    result.restarts = restart;
    if (!may_be_repeated(result) || restart == options.max_restarts) return result;
    if (options.min_ranks > 0) attempt.ranks = std::max(options.min_ranks, attempt.ranks - 1);
    log::warning("rank ", result.first->rank, " failed first: ", result.first->reason, "; restart ", restart + 1,
                 " of ", options.max_restarts, " with ", attempt.ranks, attempt.ranks == 1 ? " rank" : " ranks");
  }
}

}  // namespace shade::comm
