#include "shade/privacy/clip/one_pass.h"

#include <ATen/ATen.h>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/privacy/norms/linear.h"
#include "shade/privacy/norms/position_sums.h"
#include "shade/privacy/norms/rounding.h"
#include "shade/privacy/norms/scale_shift.h"

namespace shade::privacy {

OnePass::OnePass(const MethodRow& row, const MethodSetup& setup, const ClipOptions& options)
    : ClippingMethod(row, setup, options), chooser_(row_, options, setup.samples), kept_(clipper_.groups()) {}

std::span<const MethodPass> OnePass::passes() const {
  static constexpr MethodPass kPasses[] = {{.gradients = false, .last = true}};
  return kPasses;
}

// A micro-batch that failed may have left layers, which other coefficients would not bound.
void OnePass::begin(int64_t samples, int64_t blank) {
  ClippingMethod::begin(samples, blank);
  kept_.assign(clipper_.groups(), {});
  chooser_.begin();
}

void OnePass::keep(Kept kept, size_t group) {
  const auto mark = [](const at::Tensor& tensor) {
    if (tensor.defined()) MemoryUse::changed(tensor.storage().data_ptr().get_context(), MemoryKind::kept);
  };
  std::visit([&](const auto& entry) { for_each_tensor(entry, mark); }, kept);
  kept_[group].push_back(std::move(kept));
}

void OnePass::keep(const nn::LinearGrad& grad, size_t group) {
  const auto choice = grad.weight != nullptr ? chooser_.choose(grad) : LayerChoice{.keep = Keep::books};
  if (choice.keep == Keep::books) {
    add_norms(grad, {.algorithm = choice.norm, .tile = options_.tile_size, .workspace = options_.workspace}, norms_);
    return keep(Kept(nn::LayerGrad(grad)), group);
  }
  const MemoryScope scope(MemoryKind::kept);
  const Span span(SpanName::sample_gradients, grad.weight->id());
  SampleGradients weight{sample_gradients(grad.a_BTD, grad.g_BTP), grad.weight, grad.row, grad.last};
  add_norms(grad, weight, norms_);
  keep(Kept(std::move(weight)), group);
  if (grad.bias == nullptr) return;
  SampleGradients bias{position_sums(grad.g_BTP), grad.bias};
  norms_.add(*grad.bias, squares_of(bias.gradients_B));
  keep(Kept(std::move(bias)), group);
}

void OnePass::keep(const nn::ScaleShiftGrad& grad, size_t group) {
  const MemoryScope scope(MemoryKind::kept);
  const auto put = [&](const nn::Weight* weight, const at::Tensor& gradients_B) {
    norms_.add(*weight, squares_of(gradients_B));
    keep(Kept(SampleGradients{gradients_B, weight}), group);
  };
  if (grad.scale != nullptr) put(grad.scale, scale_gradients(grad));
  if (grad.shift != nullptr) put(grad.shift, shift_gradients(grad));
}

// Its gradients may depend on weights, which are gone in the second phase: they are kept by every method.
void OnePass::keep(const nn::OwnGrad& grad, size_t group) {
  const MemoryScope scope(MemoryKind::kept);
  const Span span(SpanName::sample_gradients, grad.rule->weights().front()->id());
  for (auto& each : own_gradients(grad)) {
    chooser_.keeps(each.gradients_B);
    norms_.add(*each.weight, squares_of(each.gradients_B));
    keep(Kept(std::move(each)), group);
  }
}

void OnePass::take(nn::LayerGrad grad) {
  const at::NoGradGuard no_graph;
  norms_.admit(grad);
  const auto group = clipper_.group_of(*weights_of(grad).front());
  if (const auto* linear = std::get_if<nn::LinearGrad>(&grad)) {
    keep(*linear, group);
  } else if (const auto* norm = std::get_if<nn::ScaleShiftGrad>(&grad)) {
    keep(*norm, group);
  } else if (const auto* own = std::get_if<nn::OwnGrad>(&grad)) {
    keep(*own, group);
  } else {
    add_norms(grad, {}, norms_);
    keep(Kept(std::move(grad)), group);
  }
  if (!clipper_.flat() && norms_.complete(group)) settle(group);
}

// The second phase of a group: clipped sums, in backward order, each unit's reduction begun as it is complete.
void OnePass::settle(size_t group) {
  const Span span(SpanName::second_phase);
  const MemoryScope scope(MemoryKind::temporary);
  const auto& c_B = coefficients(group);
  auto entries = std::exchange(kept_[group], {});
  std::map<nn::WeightId, int> uses;
  const auto owners = [](const Kept& entry) {
    return std::visit([](const auto& kept) { return weights_of(kept); }, entry);
  };
  for (const auto& entry : entries)
    for (const auto* weight : owners(entry)) ++uses[weight->id()];
  for (auto& entry : entries) {
    std::visit([&](const auto& kept) { add_clipped(kept, c_B); }, entry);
    const auto weights = owners(entry);
    entry = SampleGradients{};  // its memory is free before the reduction asks for some
    for (const auto* weight : weights)
      if (--uses[weight->id()] == 0) sink_->complete(*weight);
  }
}

void OnePass::finish() {
  const at::NoGradGuard no_graph;
  norms_.require_complete();
  count();
  for (size_t group = 0; group < kept_.size(); ++group)
    if (!kept_[group].empty()) settle(group);
}

namespace {

constexpr double kPass = 24;       // operations in the time of one element's way to memory and back
constexpr double kRoomier = 1.45;  // what is kept may take so many times the memory of books

}  // namespace

NormAlgorithm Chooser::timed(const nn::LinearGrad& grad) {
  const auto key = std::tuple{grad.g_BTP.size(0), grad.g_BTP.size(1), grad.g_BTP.size(2), grad.a_BTD.size(2)};
  const auto found = timings_.find(key);
  if (found != timings_.end()) return found->second;
  const auto time = [](const auto& work) {
    const auto begin = Clock::now();
    work();
    return Clock::now() - begin;
  };
  const auto gram = time([&] { (void)gram_squares(grad.a_BTD, grad.g_BTP, options_.tile_size); });
  const auto whole =
      time([&] { (void)instantiated_squares(grad.a_BTD, grad.g_BTP, norm_workspace(grad.g_BTP, options_.workspace)); });
  return timings_[key] = gram < whole ? NormAlgorithm::gram : NormAlgorithm::instantiate;
}

bool Chooser::shares_input(const at::Tensor& a_BTD) {
  const Input input{a_BTD.storage().getWeakStorageImpl(), a_BTD.storage_offset()};
  const auto last = std::exchange(input_, input);
  return last.storage && *last.storage == *input.storage && last.offset == input.offset;
}

LayerChoice Chooser::choose(const nn::LinearGrad& grad) {
  LayerChoice out{row_.keep, row_.norm};
  const auto costs = norm_costs(grad, options_.tile_size);
  if (out.norm == NormAlgorithm::automatic && out.keep != Keep::gradients)
    out.norm = options_.norm_timing ? timed(grad) : costs.cheaper();
  if (!row_.choose) return out;
  const auto t = grad.g_BTP.size(1), p = grad.g_BTP.size(2), d = grad.a_BTD.size(2);
  const auto samples = static_cast<double>(samples_ > 0 ? samples_ : grad.g_BTP.size(0));
  const auto size = static_cast<double>(p * d);
  const double books_cost = out.norm == NormAlgorithm::gram ? costs.gram : costs.instantiate;
  const auto element = static_cast<double>(grad.g_BTP.element_size());
  const bool shared = shares_input(grad.a_BTD);
  const double books = samples * element * static_cast<double>(t * (shared ? p : p + d));
  const double gradients = samples * element * size;
  books_ += books;
  const double after = kept_ + gradients;
  const bool fits = options_.memory.count == 0 || after <= static_cast<double>(options_.memory.count);
  const bool faster = 3 * kPass * size < books_cost;
  if (gradients <= books || (faster && fits && after <= kRoomier * books_)) out.keep = Keep::gradients;
  kept_ += out.keep == Keep::gradients ? gradients : books;
  return out;
}

void Chooser::keeps(const at::Tensor& gradients_B) {
  const auto samples = std::max<int64_t>(1, samples_ > 0 ? samples_ : gradients_B.size(0));
  const auto bytes = static_cast<double>(samples * c10::multiply_integers(gradients_B.sizes().slice(1))) *
                     static_cast<double>(gradients_B.element_size());
  books_ += bytes;
  kept_ += bytes;
}

}  // namespace shade::privacy
