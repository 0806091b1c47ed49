#pragma once

#include <string>

namespace shade::cli {

std::string commit();        // what this was built from
std::string version_text();  // ours, libtorch's, compiler, backends

}  // namespace shade::cli
