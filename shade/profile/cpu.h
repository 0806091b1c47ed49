// The processor of this host, as the system describes it.
#pragma once

#include <string>
#include <vector>

namespace shade::profile {

std::vector<std::string> cpu_lines();  // of the first one: "model name\t: ...", "flags\t: ..."; empty: unknown
std::string cpu_name();                // "unknown" if nothing says it

}  // namespace shade::profile
