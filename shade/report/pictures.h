// The pictures of a report: each as a script for gnuplot, and only those for which there are figures.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shade/report/gnuplot.h"
#include "shade/report/rows.h"
#include "shade/report/runs.h"

namespace shade::report {

// A row of the tables below: the name of the picture and of its files, and what draws it. Empty script: there are no
// figures for it.
struct PictureRow {
  const char* name;
  Picture (*draw)(const Results& results);
};
std::span<const PictureRow> method_pictures();    // pictures_methods.cpp: methods side by side
std::span<const PictureRow> tradeoff_pictures();  // pictures_tradeoff.cpp: memory against time and throughput
std::span<const PictureRow> part_pictures();      // pictures_parts.cpp: where the memory and the time of a step go
std::span<const PictureRow> timeline_pictures();  // pictures_timeline.cpp: memory by stage and through a step
std::span<const PictureRow> step_pictures();      // pictures_step.cpp: one step on an axis of time
std::span<const PictureRow> front_pictures();     // pictures_front.cpp: what shade plan --advise tried
std::span<const PictureRow> sweep_pictures();     // pictures_sweep.cpp: strategies against batch sizes

std::vector<Picture> pictures_of(const Results& results);  // those with figures, in the order of the tables
// Of all rows: what an earlier report left and this one doesn't draw is removed.
std::vector<std::string> picture_names();

// From the JSON of shade scan: pictures_growth.cpp. Empty script: there are no figures for it.
Picture growth_picture(const Json& scan, const std::string& subtitle);

// A loss to compare with: what guessing by frequency has, or another program's.
struct ReferenceLine {
  double value = 0;
  std::string words;  // may be empty
};

// Runs of shade train: pictures_training.cpp.
Picture training_picture(const std::vector<TrainingRun>& runs, const std::vector<ReferenceLine>& lines);

}  // namespace shade::report
