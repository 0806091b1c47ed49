#pragma once

#include <string>

#include "shade/base/json.h"
#include "shade/cli/verb.h"

namespace shade::cli {

std::string version();       // "0.2.0"
std::string commit();        // what this was built from
std::string date();          // of that commit: 2026-11-17; empty: unknown
std::string version_text();  // ours, libtorch's, compiler, backends

// Where a result or a run comes from: when, on which host, by which command and versions it was made.

// "shade bench --model llama-nano": what the verb was given, so without --token (cli/foreign_words.h). Of an absolute
// path only the last name stays.
std::string command_text(const std::string& verb, const Arguments& arguments);

// `environment` of results. An accelerator is named, a CPU always.
Json origin(const std::string& verb, const Arguments& arguments, c10::Device device);

}  // namespace shade::cli
