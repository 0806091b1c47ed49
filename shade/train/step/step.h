// One logical training step: where model, sharding, privacy and optimizer meet.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "shade/hash/digest.h"
#include "shade/models/model.h"
#include "shade/optim/optimizer.h"
#include "shade/optim/schedule.h"
#include "shade/privacy/clip/method.h"
#include "shade/privacy/noise.h"
#include "shade/shard/runtime.h"
#include "shade/train/feed/micro_shapes.h"
#include "shade/train/step/written_weights.h"

namespace shade::train {

class HostSums;

// Figures of one step, equal on all ranks.
struct StepRecord {
  // Mean over all samples, or all counted tokens (Model::sums_tokens), of all ranks; in a private step over samples
  // whose loss is finite. Not private. No sample: NaN, and no update, unless the step is private: then noise is all it
  // learns from.
  double loss = 0;
  double learning_rate = 0;  // of this step's update
  // Of the mean gradient of all ranks, before it is clipped. Never of a private step.
  std::optional<double> gradient_norm{};
  privacy::ClipCounts samples;  // of all ranks; not private
  int64_t tokens = 0;           // of all ranks, without padding; not private
  int64_t padded_tokens = 0;    // of all ranks, with padding and blank samples: what was computed; not private
  double length = 0;            // tokens of the sample that the mean token is in (models/flops.h); not private
  double padded_length = 0;     // the same with padding and blank samples; not private
  double clip_norm = 0;         // of a private step
  bool stop = false;            // some rank asked to stop: Step::Wishes or StepOptions::stop
  bool save = false;            // some rank asked for a checkpoint: Step::Wishes
};

// Privacy, clipping and hooks of a step; by default it is not private and clips nothing.
struct StepOptions {
  double grad_clip = 0;        // global norm, for runs that are not private; 0: none
  bool gradient_norm = false;  // report it even if nothing is clipped
  // Sigma, clip norm and divisor of private steps. None: not private.
  std::optional<privacy::PrivacyEvent> privacy{};
  privacy::MakeMethod method{};  // unset: the table's `auto`, or `none`
  // Of a step's noise. Unset: the ranks agree on a key for all steps, from the system or from noise_seed.
  std::function<privacy::NoiseKey(int64_t step)> key{};
  std::optional<uint64_t> noise_seed{};  // repeatable, and therefore not private
  // Called on every rank when a private step's sum is complete, before any of its noise is drawn. `sum` is a keyed hash
  // of it (train/step/sum_digest.h), the same on every rank; zeros on accelerators.
  std::function<void(int64_t step, const hash::Digest& sum)> before_noise{};
  // Asked when the gradients are complete; true on any rank is the same as the wish to stop.
  std::function<bool()> stop{};
  // A private step computes every micro-batch with so many samples, or so many for each length: smaller ones get blank
  // samples, which count nowhere, larger ones are refused (train/feed/micro_shapes.h). 0: as they come, for gradients
  // that nothing is trained with.
  MicroShapes micro_shapes{};
  // The step is measured or checked, on records that need no protection. Then what would weaken a private step is
  // allowed: noise drawn twice, batches that don't say which records they hold, shapes that follow them, timed choices.
  bool rehearsal = false;
};

// Throws UsageError if private steps of this kind would protect less than they say.
void require_sound(bool repeatable, nn::DType reduce);

// `others` with privacy as command lines say it, for measuring and checking.
StepOptions step_options(const privacy::DpConfig& words, StepOptions others = {});

// Throws UsageError unless a private step's noisy sum was released: what its optimizer asks before it updates weights.
void require_released(bool released);

// A step that throws after its arguments were accepted is broken, and so is its runtime: parts of its sums may be left
// where the next one is added. Both refuse every further step; a new job continues from the last checkpoint.
class Step {
 public:
  // All must outlive it. Takes over the model's tap, so that an earlier Step of this model refuses to go on, and if
  // private the optimizer: it updates weights with what run() releases, and from then on with nothing else. Collective
  // if private: the ranks agree on the noise key, and are compared in what they compute with
  // (train/spec/computes_with.h).
  Step(models::Model& model, shard::Runtime& runtime, optim::Optimizer& optimizer, optim::Schedule schedule,
       StepOptions options = {});
  ~Step();

  // This rank's wishes for the time after a step. All ranks learn of them in the record, without another message.
  struct Wishes {
    bool stop = false;  // end the run
    bool save = false;  // write a checkpoint
  };
  // Every rank brings the same number of micro-batches; their sizes may differ, and be 0. The sum of the gradients is
  // divided by `divisor`; none: by the privacy event's, or by what the losses of all ranks and micro-batches are a mean
  // of, samples or tokens. A private step needs one that is public. A private step throws if a record (or user) comes
  // twice, on whatever ranks, or if the noise of the optimizer's step was drawn before.
  StepRecord run(std::span<const nn::Batch> micro_batches, std::optional<double> divisor, Wishes wishes);
  // The same without wishes.
  StepRecord run(std::span<const nn::Batch> micro_batches, std::optional<double> divisor = {}) {
    return run(micro_batches, divisor, {});
  }

  // This rank's losses.
  struct Losses {
    double sum = 0;     // in a private step of finite losses alone
    int64_t count = 0;  // of samples or tokens in the sum
  };
  // The first half: the (clipped) summed gradient is with its owners, without noise, nothing is updated.
  Losses gradients(std::span<const nn::Batch> micro_batches);

  // The second half of a private step's gradient: each element gets noise once, from the rank that owns it. Of
  // rehearsals alone, because it is counted nowhere: sums leave a private step by run().
  void add_noise();

  bool is_private() const { return options_.privacy.has_value(); }  // there is a privacy event
  int64_t noised() const { return draws_; }       // how many steps' noise was drawn, or is about to be
  privacy::Method& method() { return *method_; }  // the clipping method, or the plain sum

 private:
  std::vector<nn::Batch> split(std::span<const nn::Batch> micro_batches) const;
  at::Tensor micro_step(const nn::Batch& present);
  void count_positions(const nn::Batch& batch);
  at::Tensor sum_gradients(std::span<const nn::Batch> micro_batches);  // -> Losses as a tensor, not yet read
  privacy::Clipper& clipper() const { return *method_->clipper(); }    // of private steps
  double noise_deviation() const;                                      // of an element of the next sum
  void require_events_noise() const;
  void begin_noise(int64_t step);
  void add_noise(std::span<const shard::LocalShard> shards, HostSums& sums) const;
  hash::Digest digest_of_sum(int64_t step, std::span<const shard::LocalShard> shards, double below) const;
  void release(std::span<const shard::LocalShard> shards, HostSums& sums, double below, double divisor,
               StepRecord& record);
  void require_distinct(std::span<const nn::Batch> micro_batches) const;
  void backward(SpanName phase, const at::Tensor& objective, shard::BackwardOptions options);
  void require_separate(std::span<const nn::Batch> batches);
  void require_whole() const;
  bool taps_model() const { return model_->parameters().wiring.tap == &tap_; }  // no later Step took it over
  void require_new_noise(int64_t step) const;

  // What the model's layers report to: the method, in a micro-step of this Step and at no other time.
  class Tap final : public nn::GradientTap {
   public:
    explicit Tap(const Step& step) : step_(step) {}
    void take(nn::LayerGrad grad) override;

   private:
    const Step& step_;
  };

  models::Model* model_;
  shard::Runtime* runtime_;
  optim::Optimizer* optimizer_;
  optim::Schedule schedule_;
  StepOptions options_;
  WrittenWeights written_;
  std::unique_ptr<privacy::Method> method_;
  Tap tap_{*this};
  std::unique_ptr<privacy::NoiseSource> noise_;  // of private steps
  std::optional<FixedShapes> shapes_;            // of private steps
  std::optional<int64_t> noised_;                // the last step whose noise was drawn
  int64_t draws_ = 0;
  // Whether the gradients have this step's noise and the update is due. Shared with the optimizer, which may live
  // longer and then stays closed.
  std::shared_ptr<bool> released_ = std::make_shared<bool>(false);
  bool in_micro_step_ = false;
  bool under_way_ = false;                        // and, between calls: the last one failed
  double positions_ = 0, squared_positions_ = 0;  // computed by this rank since run() began
  bool separate_ = false;                         // samples were seen not to mix
};

}  // namespace shade::train
