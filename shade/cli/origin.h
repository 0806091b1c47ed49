// Where a result comes from: when, on which host, by which command and version it was made.
#pragma once

#include "shade/base/json.h"
#include "shade/cli/verb.h"

namespace shade::cli {

// "shade bench --model llama-nano": what was typed, without what must not be kept. The value of a token is left out,
// and of an absolute path only the last name stays.
std::string command_text(const std::string& verb, const Arguments& arguments);

void add_origin(Json& environment, const std::string& verb, const Arguments& arguments);  // beside what is there

}  // namespace shade::cli
