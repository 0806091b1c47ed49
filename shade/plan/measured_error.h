// Written by bench/plan_error.py from docs/results/planning/rows.json; tests/docs/plan_error_test.py compares them.
#pragma once

namespace shade::plan {

// Predicted against measured on a CPU, relative: what 95 % (90 %) of the runs stay below, and the largest.
struct MeasuredError {
  int runs, process_runs;
  double tensors_95, tensors_most, process_90;  // per cent
};
inline constexpr MeasuredError kMeasuredError{
    .runs = 127, .process_runs = 127, .tensors_95 = 0.47, .tensors_most = 1.77, .process_90 = 4.7};

}  // namespace shade::plan
