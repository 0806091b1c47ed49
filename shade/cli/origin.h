// Where a result comes from: when, on which host, by which command and version it was made.
#pragma once

#include "shade/base/json.h"
#include "shade/cli/verb.h"

namespace shade::cli {

// "shade bench --model llama-nano": what the verb was given, so without --token (cli/foreign_words.h). Of an absolute
// path only the last name stays.
std::string command_text(const std::string& verb, const Arguments& arguments);

void add_origin(Json& environment, const std::string& verb, const Arguments& arguments);  // beside what is there

}  // namespace shade::cli
