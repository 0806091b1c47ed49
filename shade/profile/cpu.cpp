#include "shade/profile/cpu.h"

#include <fstream>

namespace shade::profile {

std::vector<std::string> cpu_lines() {
  std::ifstream in("/proc/cpuinfo");
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line) && !line.empty();) out.push_back(line);
  return out;
}

std::string cpu_name() {
  for (const auto& line : cpu_lines())
    if (const auto at = line.find(": "); line.starts_with("model name") && at != std::string::npos)
      return line.substr(at + 2);
  return "unknown";
}

}  // namespace shade::profile
