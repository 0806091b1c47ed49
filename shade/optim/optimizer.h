// Optimizers on flat local shards.
//
// A rank updates what it owns and nothing else, so an optimizer knows neither ranks nor strategies. It promises that
// the result of an element does not depend on where the shard was cut: the same weights come out, bit for bit, of any
// world size. libtorch's fused kernels alone don't promise that (see optimizer.cpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/names.h"
#include "shade/base/units.h"

namespace shade::optim {

// Elements [begin, end) of a slot.
struct Range {
  int64_t begin = 0, end = 0;
};

// What an optimizer updates together: the part of a flat buffer that this rank owns. May be empty.
struct Slot {
  std::string name;
  at::Tensor master;    // fp32, flat; updated in place
  at::Tensor gradient;  // fp32, flat, the same size: the sum, not yet divided. Its content is lost in a step
  int64_t offset = 0;   // of the first element in the whole buffer
  std::vector<Range> without_decay{};  // ascending, disjoint
};

enum class StateType { fp32, bf16 };
inline std::span<const Name<StateType>> names_of(StateType) {
  static constexpr Name<StateType> kNames[] = {{"fp32", StateType::fp32}, {"bf16", StateType::bf16}};
  return kNames;
}

// Gives a flat tensor of zeros: in a mapped file, on a device, ... `name` is "slot/state", unique in an optimizer.
using AllocateState =
    std::function<at::Tensor(const std::string& name, int64_t elements, const at::TensorOptions& options)>;

// Not thread-safe. On meta tensors everything happens but the arithmetic.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Before prepare(): a moving average of the weights too (optim/ema.h), as the state "ema".
  void keep_average(double decay);
  bool keeps_average() const { return average_decay_ > 0; }

  // The state of one element, by name: "exp_avg", "exp_avg_sq", "momentum", "ema". In checkpoints; they stay.
  const std::vector<std::string>& state_names() const { return state_names_; }
  // What prepare() will allocate for that many elements, to the byte.
  Bytes state_bytes(int64_t elements) const;

  // Allocates the state, once. Without it the first step does so, with zeros beside the masters.
  void prepare(std::span<const Slot> slots, const AllocateState& allocate = {});
  bool prepared() const { return !states_.empty(); }

  // Called before every update; refuses it by throwing. Weights of a private job change after noise alone.
  void before_update(std::function<void()> check) { before_update_ = std::move(check); }

  // One update of all slots, the same ones as in prepare(). Gradients are multiplied by `scale`: 1 / divisor, times the
  // clip factor. `noise` is the standard deviation of the noise in an element of them, before that.
  void step(std::span<const Slot> slots, double learning_rate, double scale = 1, double noise = 0);
  // A step without an update: there was nothing to learn from. Weights and state stay; schedules and batches go on.
  void skip() { ++steps_; }

  // What a checkpoint needs, to be read or written in place. A state is flat and as long as its slot.
  at::Tensor state(const std::string& slot, std::string_view name) const;
  int64_t steps() const { return steps_; }  // made or skipped
  void set_steps(int64_t steps) { steps_ = steps; }
  Bytes state_bytes() const;  // allocated

  // Of an optimizer that corrects for noise (optim/adambc.h): the variance of the noise in an element of the scaled
  // gradients, averaged over the steps made. None: it corrects for none, or made no step. Without it a run goes on as
  // if all its steps had had the noise of the next one.
  virtual std::optional<double> noise_variance() const { return std::nullopt; }
  virtual void set_noise_variance(double /*variance*/) {}

 protected:
  struct Update {
    double learning_rate = 0;
    bool decays = true;
    at::Tensor step;                    // fp32, from 1
    std::optional<at::Tensor> divisor;  // of the gradients, fp32
  };
  // `decays_in_parts`: whether Slot::without_decay means anything.
  Optimizer(std::vector<std::string> state_names, StateType state_type, bool decays_in_parts)
      : state_names_(std::move(state_names)), state_type_(state_type), decays_in_parts_(decays_in_parts) {}

  // Before the updates of a step, which steps() counts already: the variance of this step's noise.
  virtual void expect_noise(double /*variance*/) {}
  // `states` are fp32 and, like master and gradient, of one length.
  virtual void update(const at::Tensor& master, const at::Tensor& gradient, std::span<const at::Tensor> states,
                      const Update& how) = 0;

 private:
  at::ScalarType type_of(const std::string& state) const;
  void update_range(const Slot& slot, std::span<const at::Tensor> states, Range range, const Update& how);
  void update_staged(const Slot& slot, std::span<const at::Tensor> states, int64_t begin, int64_t end,
                     const Update& how);

  std::vector<std::string> state_names_;
  StateType state_type_;
  bool decays_in_parts_;
  double average_decay_ = 0;                               // 0: no average
  std::map<std::string, std::vector<at::Tensor>> states_;  // by slot, in the order of state_names_
  int64_t steps_ = 0;
  std::function<void()> before_update_;
};

// fp32 to bf16, up or down at random, right on average.
//
// A moment changes by a small part of itself in each step: the second one by at most (1 - beta2) of itself when it
// falls, a thousandth, while neighbours in bf16 are 1/256 to 1/128 apart. Rounded to the nearest it would never fall.
// The dice are a function of key and element index: the same for every cut of the buffer, and after a restart.
uint64_t rounding_key(std::string_view slot, int64_t state, int64_t step);

// `first` is the index of the first element. Both tensors are flat, contiguous and of one length.
void round_stochastically(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key, int64_t first);

// The same, bit for bit, from tensor operations: for devices that aren't a CPU. 40 bytes of scratch per element.
void round_stochastically_anywhere(const at::Tensor& into_bf16, const at::Tensor& from_fp32, uint64_t key,
                                   int64_t first);

}  // namespace shade::optim
