// The learning rate as a function of the step: nothing to save, nothing to restore.
#pragma once

#include <cstdint>

#include "shade/base/names.h"

namespace shade::optim {

enum class Shape { constant, cosine, linear };
inline std::span<const Name<Shape>> names_of(Shape) {
  static constexpr Name<Shape> kNames[] = {
      {"constant", Shape::constant}, {"cosine", Shape::cosine}, {"linear", Shape::linear}};
  return kNames;
}

// Updates are numbered from 0. The warm-up rises in equal parts from 0 at the first update to the peak at update
// `warmup`; then the shape falls to 0 at update `total`, the first that is not made. As get_*_schedule_with_warmup of
// transformers: the first update of a warm-up has a rate of 0.
struct Schedule {
  Shape shape = Shape::constant;
  double peak = 0;
  int64_t warmup = 0;  // updates
  int64_t total = 0;   // updates; constant doesn't ask

  double learning_rate(int64_t step) const;
};

}  // namespace shade::optim
