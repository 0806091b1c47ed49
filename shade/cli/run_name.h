// The name of a run that was given none.
#pragma once

#include <string>

#include "shade/base/json.h"

namespace shade::cli {

// "llama-nano-records-1f2e3d4c": model, data, and a hash of the settings that make an experiment another one. So the
// same command finds its run again, with more --steps too, on every rank, and another experiment has a directory of its
// own. `config`: the recipe as it was resolved, by section.
std::string run_name(const Json& config);

}  // namespace shade::cli
