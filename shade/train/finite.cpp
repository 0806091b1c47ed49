#include "shade/train/finite.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/base/error.h"

namespace shade::train {
namespace {

[[noreturn]] void diverged(const std::string& what, const StepRecord& record, const Reached& reached) {
  throw Error(text("after step ", reached.step, " ", what, " (learning rate ", record.learning_rate,
                   "): training has diverged, and nothing of it is saved or exported. ",
                   reached.saved >= 0
                       ? text("The last checkpoint stays (step ", reached.saved, "): continue from it or start")
                       : "There is no checkpoint yet: start",
                   " again with a smaller learning rate (--lr)"));
}

}  // namespace

void require_finite_loss(const StepRecord& record, const Reached& reached) {
  if (record.samples.samples == 0) return;
  const auto require = [&](const char* what, double value) {
    if (!std::isfinite(value)) diverged(text(what, " is ", std::isnan(value) ? "nan" : "infinite"), record, reached);
  };
  require("the loss", record.loss);
  require("the norm of the gradient", record.gradient_norm.value_or(0));
}

void require_finite_weights(shard::Runtime& runtime, const StepRecord& record, const Reached& reached) {
  std::vector<at::Tensor> sums;
  for (const auto& unit : runtime.units())
    for (const auto& flat : unit->flats())
      if (flat.layout->trainable) sums.push_back(flat.owned.sum(at::kDouble));
  const bool finite = sums.empty() || at::isfinite(at::stack(sums)).all().item<bool>();
  const auto broken = at::full({1}, finite ? 0.0 : 1.0, at::kDouble);
  runtime.groups().control.all_reduce(broken, {.label = "weights are finite"}).wait();
  if (broken.item<double>() > 0) diverged("weights are not finite", record, reached);
}

}  // namespace shade::train
