// shade launch: ranks on this host, with torchrun's variables.
#include <algorithm>

#include "shade/cli/verb.h"

namespace shade::cli {
namespace {

struct Launch final : LineVerb {
  comm::LaunchOptions options;
  std::string timeout = "10s";

  Launch()
      : LineVerb(
            "launch",
            "Starts ranks of a command on this host with torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, "
            "...) and a new job secret (SHADE_SECRET), prefixes their output with the rank,\nand ends all of them "
            "when one fails; with --max-restarts, starts them again.",
            "shade launch -n 4 -- ./my_program --its-option 1\n  shade launch -n 2 --max-restarts 3 -- shade train "
            "recipes/qwen2_nano.toml") {
    line.app()
        .add_option("-n,--nproc", options.ranks, "number of ranks [1]")
        ->type_name("N")
        ->check(CLI::Range(1, 4096));
    line.app()
        .add_option("--max-restarts", options.max_restarts,
                    "number of times that all ranks are started again after a failure [0]")
        ->type_name("N")
        ->check(CLI::Range(0, 1000000));
    line.app()
        .add_option(
            "--min-nproc", options.min_ranks,
            "smallest number of ranks after restarts, each of which uses one rank fewer; 0: the same number [0]")
        ->type_name("N")
        ->check(CLI::Range(0, 4096));
    line.app()
        .add_option("--peer-timeout", timeout, "time after which a stopped rank ends the job [10s]")
        ->type_name("TIME");
    line.app().add_flag("!--no-prefix", options.prefix, "omit the [rank] prefix of output lines");
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_launch() { return std::make_unique<Launch>(); }

int Launch::run(const Arguments& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (const auto status = line.parse(Arguments(arguments.begin(), dashes))) return *status;
  SHADE_REQUIRE(dashes != arguments.end() && dashes + 1 != arguments.end(),
                "nothing to launch; expected a command after --, e.g. shade launch -n 2 -- hostname");
  options.peer_timeout = parse_seconds(timeout);
  if (line.ranks) options.ranks = *line.ranks;
  options.command.assign(dashes + 1, arguments.end());
  return report(comm::launch(options));
}

}  // namespace shade::cli
