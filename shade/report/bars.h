// Lying bars, one under the other, with their names on the left and their values at their ends: any number of them has
// room, the picture only grows.
#pragma once

#include <optional>

#include "shade/report/canvas.h"
#include "shade/report/series.h"

namespace shade::report {

struct Bar {
  std::string heading, label;  // of Entry
  struct Part {
    double value;
    std::string colour;
  };
  std::vector<Part> parts;                           // from 0 on, one after the other
  std::optional<std::pair<double, double>> whisker;  // from, to
  std::string words;                                 // at its end: the number of its length, in three digits
  std::string words_colour = "#404040";

  double end() const;
};

// A panel of them below what the canvas holds.
void add_bars(Canvas& canvas, const std::string& title, const std::string& x_label, std::vector<Bar> bars);

}  // namespace shade::report
