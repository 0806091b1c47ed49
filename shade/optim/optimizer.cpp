// Vectors and their tail. libtorch's fused CPU kernels do full vectors (16 floats with AVX-512) with one instruction
// sequence and what remains with another, whose multiplications and additions are contracted differently: an element's
// second moment may differ in the last bit by whether it was in the tail. So a kernel only ever sees a whole number of
// vectors; the tail is staged: copied into padded scratch, updated there, and copied back. Cost: one call on at most 63
// elements per slot. State in bf16 is staged throughout, in blocks, so that its fp32 copy never exists as a whole.

#include "shade/optim/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/execution.h"
#include "shade/base/parallel.h"
#include "shade/optim/ema.h"

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
void say_update(const Slot& slot, std::span<const at::Tensor> states) {
  auto bytes = static_cast<double>(slot.master.nbytes());
  for (const auto& state : states) bytes += static_cast<double>(state.nbytes());
  say_skipped({.name = "optimizer_update",
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
      say_update(slot, states_.at(slot.name));
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

// bf16 is the upper half of fp32: adding a random lower half carries into it with the probability of what is cut off.
// One 64-bit draw gives the lower halves of four neighbours: element i takes 16-bit word i % 4 of draw i / 4.

namespace {

constexpr uint64_t kStride = 0x9e3779b97f4a7c15;  // splitmix64
constexpr uint64_t kFirstFactor = 0xbf58476d1ce4e5b9, kSecondFactor = 0x94d049bb133111eb;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * kFirstFactor;
  x = (x ^ (x >> 27)) * kSecondFactor;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t rounding_key(std::string_view slot, int64_t state, int64_t step) {
  uint64_t key = 0;
  const auto add = [&](uint64_t word) { key = mix(key + kStride + word); };
  for (const char c : slot) add(static_cast<unsigned char>(c));
  add(static_cast<uint64_t>(state));
  add(static_cast<uint64_t>(step));
  return key;
}

void round_stochastically(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key, int64_t first) {
  if (!from_fp32.is_cpu()) return round_stochastically_anywhere(into_bf16, from_fp32, key, first);
  const auto* const from = from_fp32.const_data_ptr<float>();
  auto* const into = into_bf16.mutable_data_ptr<at::BFloat16>();
  parallel_for(0, from_fp32.numel(), 1 << 14, [=](int64_t begin, int64_t end) {
    const auto draw_of = [=](uint64_t index) { return mix(key + kStride * (index / 4)); };
    auto index = static_cast<uint64_t>(first + begin);
    auto draw = draw_of(index) >> 16 * (index % 4);
    for (auto i = begin; i < end; ++i) {
      const auto bits = std::bit_cast<uint32_t>(from[i]) + static_cast<uint32_t>(draw & 0xffff);
      into[i] = at::BFloat16(static_cast<uint16_t>(bits >> 16), at::BFloat16::from_bits());
      draw = ++index % 4 == 0 ? draw_of(index) : draw >> 16;
    }
  });
}

void round_stochastically_anywhere(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key,
                                   int64_t first) {
  // Tensors have signed integers only: they wrap alike, but shift their sign in.
  const auto same_bits = [](uint64_t x) { return static_cast<int64_t>(x); };
  const auto shifted = [](const at::Tensor& x, int64_t n) {
    return x.bitwise_right_shift(n).bitwise_and_((int64_t{1} << (64 - n)) - 1);
  };
  const auto index = at::arange(first, first + from_fp32.numel(), from_fp32.options().dtype(at::kLong));
  auto x = index.bitwise_right_shift(2).mul_(same_bits(kStride)).add_(same_bits(key));
  x.bitwise_xor_(shifted(x, 30)).mul_(same_bits(kFirstFactor));
  x.bitwise_xor_(shifted(x, 27)).mul_(same_bits(kSecondFactor));
  x.bitwise_xor_(shifted(x, 31));
  x = x.bitwise_right_shift(index.bitwise_and(3).mul_(16)).bitwise_and_(0xffff);
  const auto bits = from_fp32.view(at::kInt).add(x.to(at::kInt)).bitwise_and_(-0x10000);
  into_bf16.copy_(bits.view(at::kFloat));
}

}  // namespace shade::optim
