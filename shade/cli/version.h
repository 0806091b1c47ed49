#pragma once

#include <string>

namespace shade::cli {

std::string version();       // "0.2.0"
std::string commit();        // what this was built from
std::string date();          // of that commit: 2026-11-17; empty: unknown
std::string version_text();  // ours, libtorch's, compiler, backends

}  // namespace shade::cli
