// The command line of one measured experiment, as `shade bench` reads it: its own, and each row of a matrix.
#pragma once

#include "shade/cli/verb.h"
#include "shade/measure/bench.h"

namespace shade::cli {

struct BenchLine {
  measure::Experiment experiment;  // as the options state it, and from parse() on what that means
  Config config;
  train::TrainConfig train;  // of a recipe, which --config may be; not used
  Config recipe_config;
  CommandLine line;
  measure::Experiment stated;                               // after parse()
  std::optional<train::Resolved<measure::Experiment>> run;  // after parse()
  std::vector<std::string> notes;                           // what was chosen that was not stated
  std::vector<NoEffect> unused;      // options without an effect: shade bench refuses them, a matrix if no row uses one
  std::optional<int> planned_ranks;  // of a world that is simulated, whatever --ranks and the environment say

  explicit BenchLine(std::string summary = "", std::string example = "");
  std::optional<int> parse(const Arguments& arguments);  // as CommandLine::parse, and what follows from it
};

}  // namespace shade::cli
