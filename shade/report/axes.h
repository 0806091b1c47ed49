// What all pictures share: units that suit the figures, places on the x axis, blocks of data.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shade/report/rows.h"

namespace shade::report {

struct Unit {
  double per_mb = 1;
  std::string name = "MiB";
};
Unit memory_unit(double largest_mb);

// Rows by group along x: a group of bars for every shape, a bar for every method.
struct BarPlaces {
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::string>> methods;
  double width = 1;  // of a bar

  explicit BarPlaces(const Results& results);
  double x(const ResultRow& row) const;
  std::string tics() const;  // gnuplot's, with the names of the groups
  int picture_width() const;
};

// One bar a row, with a gap between shapes.
struct RowPlaces {
  std::vector<double> x;
  std::vector<std::string> names;

  explicit RowPlaces(const std::vector<const ResultRow*>& rows);
  std::string tics() const;
  int picture_width() const;
};

// $name << EOD ... EOD
std::string block(const std::string& name, const std::vector<std::vector<double>>& lines);

}  // namespace shade::report
