// What pictures share: units that suit the figures, blocks of data.
#pragma once

#include <string>
#include <vector>

namespace shade::report {

struct Unit {
  double per_mb = 1;
  std::string name = "MiB";
};
Unit memory_unit(double largest_mb);

// $name << EOD ... EOD
std::string block(const std::string& name, const std::vector<std::vector<double>>& lines);

}  // namespace shade::report
