// The pictures of a report: each as a script for gnuplot, and only those for which there are figures.
#pragma once

#include <string>
#include <vector>

#include "shade/report/gnuplot.h"
#include "shade/report/rows.h"
#include "shade/report/runs.h"

namespace shade::report {

// Methods side by side: report_pictures_methods.cpp.
std::vector<Picture> method_pictures(const Results& results);
// Where the memory and the time of a step go: report_pictures_parts.cpp.
std::vector<Picture> part_pictures(const Results& results);
// Strategies against batch sizes: report_pictures_sweep.cpp.
std::vector<Picture> sweep_pictures(const Results& results);

// Every name the three may use: what an earlier report left and this one doesn't draw is removed.
std::vector<std::string> picture_names();

// A loss to compare with: what guessing by frequency has, or another program's.
struct ReferenceLine {
  double value = 0;
  std::string words;  // may be empty
};

// Runs of shade train: report_pictures_training.cpp.
Picture training_picture(const std::vector<TrainingRun>& runs, const std::vector<ReferenceLine>& lines);

}  // namespace shade::report
