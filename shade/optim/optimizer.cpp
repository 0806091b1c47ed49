// Vectors and their tail. libtorch's fused CPU kernels do full vectors (16 floats with AVX-512) with one instruction
// sequence and what remains with another, whose multiplications and additions are contracted differently: an element's
// second moment may differ in the last bit by whether it was in the tail. So a kernel only ever sees a whole number of
// vectors; the tail is staged: copied into padded scratch, updated there, and copied back. Cost: one call on at most 63
// elements per slot. State in bf16 is staged throughout, in blocks, so that its fp32 copy never exists as a whole.
#include "shade/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/shaped_work.h"
#include "shade/optim/ema.h"
#include "shade/optim/stochastic_rounding.h"

namespace shade::optim {
namespace {

constexpr int64_t kLanes = 64;                               // a multiple of every vector length
constexpr int64_t kBlock = 1 << 16, kDeviceBlock = 1 << 22;  // cache-sized; a launch must be worth its while

int64_t up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }
int64_t down(int64_t n) { return n / kLanes * kLanes; }

void check(const Slot& slot) {
  const auto good = [&](const at::Tensor& t) {
    return t.defined() && t.scalar_type() == at::kFloat && t.dim() == 1 && t.is_contiguous();
  };
  SHADE_CHECK(good(slot.master), slot.name, ": the master must be a flat, contiguous fp32 tensor");
  SHADE_CHECK(good(slot.gradient) && slot.gradient.numel() == slot.master.numel(), slot.name,
              ": the gradient must be a flat, contiguous fp32 tensor of ", slot.master.numel(), " elements");
  int64_t end = 0;
  for (const auto& range : slot.without_decay) {
    SHADE_CHECK(end <= range.begin && range.begin < range.end && range.end <= slot.master.numel(), slot.name,
                ": ranges without decay must ascend within ", slot.master.numel(), " elements; found [", range.begin,
                ", ", range.end, ") after ", end);
    end = range.end;
  }
}

// On meta nothing is updated. Weights and states are read and written, the gradient is read.
void say_skipped(const Slot& slot, std::span<const at::Tensor> states) {
  auto bytes = static_cast<double>(slot.master.nbytes());
  for (const auto& state : states) bytes += static_cast<double>(state.nbytes());
  WorkSkipped::say({.name = "optimizer_update",
                    .element_size = static_cast<int64_t>(slot.master.element_size()),
                    .read = bytes + static_cast<double>(slot.gradient.nbytes()),
                    .written = bytes});
}

}  // namespace

void Optimizer::keep_average(double decay) {
  SHADE_CHECK(states_.empty() && !keeps_average(), "an average is asked for once, before prepare()");
  SHADE_REQUIRE(decay > 0 && decay < 1, "ema is ", decay, "; expected more than 0 and less than 1");
  average_decay_ = decay;
  state_names_.emplace_back(kAverage);
}

at::ScalarType Optimizer::type_of(const std::string& state) const {
  return state_type_ == StateType::bf16 && state != kAverage ? at::kBFloat16 : at::kFloat;
}

Bytes Optimizer::state_bytes(int64_t elements) const {
  Bytes sum;
  for (const auto& name : state_names_) sum += {elements * static_cast<int64_t>(c10::elementSize(type_of(name)))};
  return sum;
}

Bytes Optimizer::state_bytes() const {
  Bytes sum;
  for (const auto& [slot, states] : states_)
    for (const auto& state : states) sum += {static_cast<int64_t>(state.nbytes())};
  return sum;
}

void Optimizer::prepare(std::span<const Slot> slots, const AllocateState& allocate) {
  SHADE_CHECK(states_.empty(), "prepare() was called twice");
  for (const auto& slot : slots) {
    const auto [place, fresh] = states_.try_emplace(slot.name);
    SHADE_CHECK(fresh, "two slots are called '", slot.name, "'");
    const auto elements = slot.master.numel();
    for (const auto& name : state_names_) {
      const auto options = slot.master.options().dtype(type_of(name));
      auto state = allocate ? allocate(text(slot.name, "/", name), elements, options) : at::zeros({elements}, options);
      SHADE_CHECK(state.dim() == 1 && state.numel() == elements && state.dtype() == options.dtype(), slot.name, "/",
                  name, ": allocated as ", state.toString(), state.sizes(), "; expected ", options.dtype().name(), "[",
                  elements, "]");
      if (name == kAverage) state.copy_(slot.master);
      place->second.push_back(std::move(state));
    }
  }
}

void Optimizer::step(std::span<const Slot> slots, double learning_rate, double scale, double noise) {
  SHADE_CHECK(scale > 0 && std::isfinite(scale), "gradients can't be scaled by ", scale);
  SHADE_CHECK(noise >= 0 && std::isfinite(noise), "the noise can't have a deviation of ", noise);
  if (before_update_) before_update_();
  if (states_.empty()) prepare(slots);
  SHADE_CHECK(slots.size() == states_.size(), "a step of ", slots.size(), " slots; ", states_.size(), " were prepared");
  for (const auto& slot : slots) {
    check(slot);
    const auto found = states_.find(slot.name);
    SHADE_CHECK(found != states_.end(), "slot '", slot.name, "' was not prepared");
    for (const auto& state : found->second)
      SHADE_CHECK(state.numel() == slot.master.numel(), slot.name, " has ", slot.master.numel(),
                  " elements; prepared were ", state.numel());
  }
  const at::NoGradGuard no_graph;
  ++steps_;
  expect_noise(std::pow(noise * scale, 2));
  for (const auto& slot : slots) {
    if (slot.master.numel() == 0) continue;
    if (slot.master.is_meta()) {
      say_skipped(slot, states_.at(slot.name));
      continue;
    }
    const auto scalar = [&](double value) { return at::full({}, value, slot.master.options()); };
    Update how{.learning_rate = learning_rate,
               .step = scalar(static_cast<double>(steps_)),
               .divisor = scale == 1 ? std::nullopt : std::optional(scalar(1 / scale))};
    const std::span<const at::Tensor> all = states_.at(slot.name);
    const auto states = keeps_average() ? all.first(all.size() - 1) : all;
    int64_t begin = 0;
    if (decays_in_parts_)
      for (const auto& constant : slot.without_decay) {
        update_range(slot, states, {begin, constant.begin}, how);
        how.decays = false;
        update_range(slot, states, constant, how);
        how.decays = true;
        begin = constant.end;
      }
    update_range(slot, states, {begin, slot.master.numel()}, how);
    if (keeps_average()) follow(all.back(), slot.master, average_decay_);
  }
}

void Optimizer::update_range(const Slot& slot, std::span<const at::Tensor> states, Range range, const Update& how) {
  auto [begin, end] = range;
  const auto whole = down(end - begin);
  if (whole > 0 && (state_type_ == StateType::fp32 || states.empty())) {
    const auto part = [&](const at::Tensor& t) { return t.narrow(0, range.begin, whole); };
    std::vector<at::Tensor> parts;
    for (const auto& state : states) parts.push_back(part(state));
    update(part(slot.master), part(slot.gradient), parts, how);
    begin += whole;
  }
  const auto block = slot.master.is_cpu() ? kBlock : kDeviceBlock;
  for (; begin < end; begin += block) update_staged(slot, states, begin, std::min(begin + block, end), how);
}

void Optimizer::update_staged(const Slot& slot, std::span<const at::Tensor> states, int64_t begin, int64_t end,
                              const Update& how) {
  const auto elements = end - begin;
  const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, elements); };
  const auto staged = [&](const at::Tensor& t) {
    auto scratch = at::zeros({up(elements)}, slot.master.options());
    scratch.narrow(0, 0, elements).copy_(part(t));
    return scratch;
  };
  const bool whole = elements == up(elements);
  const auto master = whole ? part(slot.master) : staged(slot.master);
  const auto gradient = whole ? part(slot.gradient) : staged(slot.gradient);
  std::vector<at::Tensor> scratch;
  for (const auto& state : states) scratch.push_back(staged(state));
  update(master, gradient, scratch, how);
  if (!whole) part(slot.master).copy_(master.narrow(0, 0, elements));
  for (size_t i = 0; i < states.size(); ++i) {
    const auto result = scratch[i].narrow(0, 0, elements);
    if (state_type_ == StateType::bf16)
      round_stochastically(part(states[i]), result, rounding_key(slot.name, static_cast<int64_t>(i), steps_),
                           slot.offset + begin);
    else
      part(states[i]).copy_(result);
  }
}

at::Tensor Optimizer::state(const std::string& slot, std::string_view name) const {
  const auto found = states_.find(slot);
  const auto place = std::find(state_names_.begin(), state_names_.end(), name);
  SHADE_CHECK(found != states_.end() && place != state_names_.end(), "there is no state '", name, "' of slot '", slot,
              "'");
  return found->second[static_cast<size_t>(place - state_names_.begin())];
}

}  // namespace shade::optim
