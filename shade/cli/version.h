#pragma once

#include <string>

namespace shade::cli {

std::string version();       // "0.2.0"
std::string commit();        // what this was built from
std::string version_text();  // ours, libtorch's, compiler, backends

}  // namespace shade::cli
