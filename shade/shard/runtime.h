// Sharding at run time: gathers a unit before it is used, gives it back after, reduces gradients when they are final.
//
// One runtime serves all strategies (shard/config.h): a mesh and one flag. It listens to a model's units and offers
// gradient buffers; it knows neither layers nor privacy.
//
//   runtime.begin_step(micro_steps);
//   for each micro-step:
//     runtime.begin_forward();   losses = model.losses(batch)
//     runtime.begin_backward(BackwardOptions{...});   backward -> tap -> buffer(w) ..., and complete(w) if not on leave
//     runtime.end_micro_step();
//   runtime.wait();   noise and optimizer on shards()   runtime.updated();
#pragma once

#include <deque>
#include <memory>

#include "shade/base/span.h"
#include "shade/nn/gradients.h"
#include "shade/shard/sharded_unit.h"

namespace shade::shard {

// What the runtime may do during a backward pass.
struct BackwardOptions {
  bool final_on_leave = true;  // gradients are complete when backward leaves a unit; else the caller says complete(w)
  bool last_use = true;        // no later pass of this step needs the weights
};

// When a unit was asked for, had arrived, was used, and how long that held up the computation.
struct OverlapRecord {
  std::string unit;          // UnitLayout::name
  nn::Pass pass;             // in which it was gathered; backward if it is a reduction
  bool reduction = false;    // of gradients; false: a gather of weights
  Bytes wire;                // sent by this rank
  Clock::time_point issued;  // when its first operation was issued
  Clock::time_point ready;   // when its last operation had ended
  Clock::time_point used;    // when the wait for it was over
  Seconds waited{0};         // time that the computation was blocked
};

// The sharded weights of one model on this rank.
class Runtime : public nn::UnitObserver, public nn::GradientSink {
 public:
  // Type and place of the computation.
  struct Options {
    nn::DType compute = nn::DType::fp32;  // of gathered weights; what a rank owns is fp32 at least
    at::Device device = at::kCPU;         // of gathered weights and gradients
  };

  // Takes over the parameters' wiring (units) and their storage; they must outlive it.
  Runtime(nn::Parameters& parameters, Groups groups, const ShardConfig& config, Options options);
  // The same with default options.
  Runtime(nn::Parameters& parameters, Groups groups, const ShardConfig& config)
      : Runtime(parameters, std::move(groups), config, Options{}) {}
  ~Runtime() override;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const Layout& layout() const { return layout_; }                 // which weights are gathered together
  const Groups& groups() const { return context_.groups; }         // as passed to the constructor
  const Policy& policy() const { return context_.groups.policy; }  // mesh of the strategy
  at::ScalarType compute() const { return context_.compute; }      // of gathered weights
  nn::DType reduce_type() const { return config_.reduce_dtype; }   // of gradients on the way
  at::Device device() const { return context_.device; }            // Options::device

  // Writes elements [begin, begin + out.numel()) of a weight.
  using Source = std::function<void(const nn::Weight& weight, int64_t begin, at::Tensor out)>;
  void fill(const Source& source);  // every rank fills what it owns
  void initialise(uint64_t seed);   // by each weight's Init: the same values for every strategy and world size

  // Gradients are summed and sent in fp64: for terms on a grid, of which no sum is rounded (privacy/clip/exact_sum.h).
  // Or as usual, in the weights' type. Between steps.
  void sum_exactly(bool exactly);
  // The step's gradients to the weights' type, for the optimizer; shards() has them from now on, until updated().
  void narrow_gradients(const ShardedUnit::EachPiece& before = {});

  void begin_step(int64_t micro_steps = 1);  // throws UsageError if the last one's gradients were never waited for
  void begin_forward();                      // before the losses are computed, in evaluation too
  void begin_backward(BackwardOptions options = {});  // before each backward pass of a micro-step
  void end_micro_step();                              // after the last backward pass of a micro-step
  void wait();                                        // the gradients of the whole step are with their owners

  std::vector<LocalShard> shards();  // this rank's, in the model's order
  void updated();                    // the owners changed the weights; gradients are given up

  // Which tensor whole() gathers.
  enum class Part { weight, gradient };
  // A copy of a weight, or of its gradient, whole and on device(): for tests, evaluation and export. Collective.
  at::Tensor whole(const nn::Weight& weight, Part part = Part::weight);

  // Of this step so far.
  std::vector<OverlapRecord> drain_overlap() { return std::exchange(overlap_, {}); }

  // Waits until the unit's weights are gathered, and may begin to gather the next unit.
  void enter(nn::UnitId unit, nn::Pass pass) override;
  // Releases the weights if the strategy says so; in backward the gradients may be complete (final_on_leave).
  void leave(nn::UnitId unit, nn::Pass pass) override;
  // The buffer that this rank's gradients are added to, in the weight's shape. Throws UsageError after complete().
  at::Tensor buffer(const nn::Weight& weight) override;
  bool written(const nn::Weight& weight) const override;  // false: the buffer's content is undefined
  void mark_written(const nn::Weight& weight) override;   // the buffer holds a gradient from now on
  void complete(const nn::Weight& weight) override;       // nothing more will be added in this micro-step

  const std::vector<std::unique_ptr<ShardedUnit>>& units() const { return units_; }  // in the order of layout()
  Storage& storage() { return *storage_; }                                           // of shards and optimizer state

 private:
  struct Place {  // of a weight
    size_t unit, flat, piece;
  };
  // The order in which units are entered, learnt from the last time; what comes next is gathered ahead.
  struct Order {
    std::vector<size_t> expected, seen;
    void begin();
    std::optional<size_t> next() const;
  };

  bool reads(nn::UnitId unit, nn::Pass pass) const;  // its weights, in this pass
  void hold(size_t unit, nn::Pass pass);
  void prefetch(const Order& order);
  void collect_until(Bytes limit);
  Order& order(nn::Pass pass) { return pass == nn::Pass::forward ? forward_ : backward_; }

  nn::Parameters* parameters_;
  ShardConfig config_;
  Layout layout_;
  std::unique_ptr<Storage> storage_;
  UnitContext context_;
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<Place> places_;  // by WeightId

  struct Use {
    int64_t holds = 0;        // entered and not yet left
    int64_t entries = 0;      // in this forward
    int64_t outstanding = 0;  // of them, not yet left by this backward
  };
  std::vector<Use> uses_;
  Order forward_, backward_;
  UnitSpan in_unit_;
  BackwardOptions options_;
  int64_t micro_steps_left_ = 0;
  bool summing_ = false;         // from the first backward of a step until it was waited for
  std::deque<size_t> reducing_;  // oldest first
  std::vector<OverlapRecord> overlap_;
};

}  // namespace shade::shard
