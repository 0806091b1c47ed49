#include "shade/report/axes.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/report/gnuplot.h"

namespace shade::report {
namespace {

constexpr double kGroup = 0.8;  // of the room between two groups is bars

std::string tics_at(const std::vector<double>& x, const std::vector<std::string>& names) {
  size_t letters = 0;
  for (const auto& name : names) letters += name.size() + 2;
  std::vector<std::string> tics;
  for (size_t i = 0; i < x.size(); ++i) tics.push_back(tic_for_gnuplot(quoted_for_gnuplot(names[i]), x[i]));
  const bool turned = letters > 90;
  // A turned name ends below its bar and begins to the left of it, perhaps of the picture.
  const auto margin = turned ? std::clamp<size_t>(names.front().size() * 4 / 5, 12, 60) : 12;
  return text("set xtics (", join(tics, ", "), ") ", turned ? "rotate by 35 right" : "norotate", "\nset lmargin ",
              margin, "\nset xrange [", x.front() - 0.7, ":", x.back() + 0.7, "]\n");
}

}  // namespace

Unit memory_unit(double largest_mb) {
  if (largest_mb >= 512) return {.per_mb = 1.0 / 1024, .name = "GiB"};
  if (largest_mb < 0.5) return {.per_mb = 1024, .name = "KiB"};
  return {};
}

BarPlaces::BarPlaces(const Results& results) : methods(methods_of(results.rows)) {
  for (const auto& row : results.rows)
    if (std::find(groups.begin(), groups.end(), row.group) == groups.end()) groups.push_back(row.group);
  width = kGroup / static_cast<double>(std::max<size_t>(1, methods.size()));
}

double BarPlaces::x(const ResultRow& row) const {
  const auto group = std::find(groups.begin(), groups.end(), row.group) - groups.begin();
  const auto method =
      std::find_if(methods.begin(), methods.end(), [&](const auto& m) { return m.first == row.method; }) -
      methods.begin();
  const auto middle = (static_cast<double>(methods.size()) - 1) / 2;
  return static_cast<double>(group) + (static_cast<double>(method) - middle) * width;
}

std::string BarPlaces::tics() const {
  std::vector<double> x;
  for (size_t i = 0; i < groups.size(); ++i) x.push_back(static_cast<double>(i));
  return tics_at(x, groups);
}

int BarPlaces::picture_width() const {
  const auto bars = static_cast<int>(groups.size() * (methods.size() + 1));
  return std::clamp(400 + 28 * bars, 900, 2400);
}

RowPlaces::RowPlaces(const std::vector<const ResultRow*>& rows) {
  const bool one_mode =
      std::all_of(rows.begin(), rows.end(), [&](const auto* row) { return row->mode == rows.front()->mode; });
  double next = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && !one_mode && rows[i]->group != rows[i - 1]->group) next += 0.5;
    x.push_back(next++);
    names.push_back(one_mode && !rows[i]->group.empty() ? rows[i]->group : rows[i]->name);
  }
}

std::string RowPlaces::tics() const { return tics_at(x, names); }
int RowPlaces::picture_width() const { return std::clamp(400 + 45 * static_cast<int>(x.size()), 900, 2400); }

std::string block(const std::string& name, const std::vector<std::vector<double>>& lines) {
  std::string out = text("$", name, " << EOD\n");
  for (const auto& line : lines) {
    std::vector<std::string> cells;
    for (const double value : line) cells.push_back(std::isfinite(value) ? Json(value).dump() : "NaN");
    out += join(cells, " ") + "\n";
  }
  return out + "EOD\n";
}

}  // namespace shade::report
