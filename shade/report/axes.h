// What pictures share: units that suit the figures, blocks of data.
#pragma once

#include <string>
#include <vector>

#include "shade/report/rows.h"

namespace shade::report {

// One unit for the axis of a panel and all values written in it. Values are stored in MiB or ms.
struct Unit {
  double factor = 1;
  std::string name;

  double of(double value) const { return value * factor; }
  std::string label(double value) const;  // "0.398 MiB"; "< 0.001 GiB"
};
Unit memory_unit(double largest_mb);
Unit time_unit(double largest_ms);
Unit time_unit(const Results& results);  // of its steps

// $name << EOD ... EOD
std::string block(const std::string& name, const std::vector<std::vector<double>>& lines);

}  // namespace shade::report
