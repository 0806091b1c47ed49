#include "shade/report/course_chart.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/palette.h"

namespace shade::report {

Highest highest_of(const Course& course) {
  Highest out;
  for (size_t i = 0; i < course.ms.size(); ++i) {
    double sum = 0;
    for (const auto& [kind, values] : course.kinds_mb) sum += values[i];
    if (sum > out.mb) out = {sum, course.ms[i]};
  }
  return out;
}

std::vector<std::string> visible_kinds(const std::vector<const Course*>& courses, double largest_mb) {
  std::vector<std::string> out;
  for (const auto* course : courses)
    for (const auto& [kind, values] : course->kinds_mb)
      if (*std::max_element(values.begin(), values.end()) > 0.005 * largest_mb &&
          std::find(out.begin(), out.end(), kind) == out.end())
        out.push_back(kind);
  return out;
}

// Sums over each other: the highest first, so that each leaves its own slice to be seen.
std::string stacked_course(const Course& course, const std::vector<std::string>& kinds, const Unit& unit,
                           const Unit& time) {
  std::vector<std::vector<double>> lines;
  for (size_t i = 0; i < course.ms.size(); ++i) {
    lines.push_back({time.of(course.ms[i])});
    double sum = 0;
    for (const auto& kind : kinds) {
      for (const auto& [name, values] : course.kinds_mb)
        if (name == kind) sum += unit.of(values[i]);
      lines.back().push_back(sum);
    }
  }
  std::vector<std::string> parts;
  for (size_t k = kinds.size(); k-- > 0;)
    parts.push_back(text("$course using 1:", k + 2, " with fillsteps fs solid 1 noborder lc rgb '",
                         colour_of_memory(kinds[k]), "'"));
  const auto [mb, ms] = highest_of(course);
  parts.emplace_back("$highest using 1:2 with points pt 9 ps 1.2 lc rgb '#202020'");
  return block("course", lines) + block("highest", {{time.of(ms), unit.of(mb)}}) + "plot " + join(parts, ", \\\n  ") +
         "\n";
}

}  // namespace shade::report
