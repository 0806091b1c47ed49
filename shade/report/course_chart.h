// The course of memory through a step, by what it is for: what several pictures draw.
#pragma once

#include "shade/report/axes.h"
#include "shade/report/rows.h"

namespace shade::report {

struct Highest {
  double mb = 0, ms = 0;
};
Highest highest_of(const Course& course);  // the largest sum of all kinds, at its first moment

// Kinds with more than a share of 0.005 of `largest_mb`, in the order of the file.
std::vector<std::string> visible_kinds(const std::vector<const Course*>& courses, double largest_mb);

// gnuplot's words for it: areas over each other, in `unit` over `time`, and a mark at the highest.
std::string stacked_course(const Course& course, const std::vector<std::string>& kinds, const Unit& unit,
                           const Unit& time);

}  // namespace shade::report
