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

// Updates are numbered from 0. Warm-up rises in equal parts, from peak / warmup at the first update to the peak at the
// last of the warm-up; then the shape falls from the peak at update `warmup` to 0 at update `total`, the first that is
// not made. So no update is wasted on a rate of 0.
struct Schedule {
  Shape shape = Shape::constant;
  double peak = 0;
  int64_t warmup = 0;  // updates
  int64_t total = 0;   // updates; constant doesn't ask

  double learning_rate(int64_t step) const;
};

}  // namespace shade::optim
