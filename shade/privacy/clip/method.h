// A clipping method: what happens between backward and the sum of clipped gradients.
//
//   method.begin(samples);
//   for (pass : method.passes()) backward(method.objective(losses_B, pass))      layers -> take()
//   method.finish();                                                             -> sink.buffer(w) +=, sink.complete(w)
//
// The user's words are rows of one table (clip/method.cpp): passes x norm algorithm x what is kept of a layer.
#pragma once

#include <functional>
#include <memory>

#include "shade/nn/gradients.h"
#include "shade/privacy/clip/exact_sum.h"
#include "shade/privacy/clip/sample_norms.h"

namespace shade::privacy {

// What of a layer waits until its samples' norms are known: nothing (a second backward makes it anew), its books
// (activation and output gradient), or each sample's gradient.
enum class Keep { nothing, books, gradients };

// A row of the table of our own methods.
struct MethodRow {
  MethodName name;                                // none: no clipping, or a method from outside
  int passes = 1;                                 // backward passes per micro-batch, 1 or 2
  NormAlgorithm norm = NormAlgorithm::automatic;  // of linear layers whose gradients are not kept
  Keep keep = Keep::nothing;                      // of a linear layer, until the norms are known
  int64_t micro_batch = 0;                        // samples at a time; 0: as they come
  bool choose = false;                            // keep and norm are chosen for each layer and shape
};
// Returns the row of that name, which stays valid.
const MethodRow& row_of(MethodName name);

// One walk over the graph.
struct MethodPass {
  bool gradients = true;  // weights' gradients are final when backward leaves their unit
  bool last = true;       // the graph and the weights are not needed again
};

// What the samples of the step so far looked like. Not private: for those who run the training, not for release.
struct ClipCounts {
  int64_t samples = 0;     // all but blank ones
  int64_t clipped = 0;     // norm > C (between C and its margin is not counted)
  int64_t not_finite = 0;  // loss or norm is not finite; left out of the sum
  double below = 0;        // sum of [norm <= C] - 1/2, for adaptive clipping
};

// The squared norms of one micro-batch, for those who check them. Not private.
struct RecordedNorms {
  at::Tensor squares_B;                          // of all weights together
  std::map<nn::WeightId, at::Tensor> by_weight;  // [B] each, of trainable weights
};

// How a step's gradients become one sum. What a step needs of it; ClippingMethod has what the private ones share.
class Method : public nn::GradientTap {
 public:
  ~Method() override = default;

  // The backward passes over each micro-batch, in order; at least one.
  virtual std::span<const MethodPass> passes() const = 0;
  virtual int64_t micro_batch() const { return 0; }  // samples at a time; 0: as they come
  virtual bool repeatable() const { return true; }   // the same step again has the same bits
  // What it keeps of a micro-batch grows with its positions, so that a micro-batch of shorter samples may have more of
  // them; false: with its samples.
  virtual bool grows_with_positions() const { return false; }
  virtual Clipper* clipper() { return nullptr; }  // what bounds a sample; null: nothing does, so not for private steps
  // ClipCounts of the step so far as one tensor, fp64: samples, clipped, not_finite, below. On the device, not yet read
  // by the host; undefined: none were counted.
  virtual at::Tensor drain_counted() { return {}; }
  ClipCounts drain_counts();  // the same, read
  // JSON: how it computes, beside its clipper, as far as that decides the bits of a step; of all ranks alike.
  virtual std::string settings() const { return "{}"; }

  // Forgets what is left of an earlier micro-batch, counts aside: one that failed in the middle may have left some.
  // The last `blank` of the samples are padding (train/feed/micro_shapes.h): they weigh nothing and are counted
  // nowhere.
  virtual void begin(int64_t /*samples*/, int64_t /*blank*/ = 0) {}
  // What to differentiate in a pass: [B] losses, each sample's own -> a number.
  virtual at::Tensor objective(const at::Tensor& losses_B, size_t pass) = 0;
  // After the last pass: every trainable weight is written, and complete unless its pass said `gradients`.
  virtual void finish() {}

  // The squared norms of every micro-batch, for those who check them. Not private.
  virtual void record_norms(bool /*on*/) {}
  // Returns those recorded since the last call, one entry per micro-batch.
  virtual std::vector<RecordedNorms> drain_norms() { return {}; }
};

// What a method is made for. Parameters and sink must outlive it.
struct MethodSetup {
  const nn::Parameters& parameters;  // of the model
  nn::GradientSink& sink;            // receives the summed gradients
  PrivacyEvent event{};              // of a step that is not private: none of it counts
  int64_t samples = 0;               // of a micro-batch, whatever records were drawn; 0: not known
};

// A row of the table, or a method from outside.
using MakeMethod = std::function<std::unique_ptr<Method>(const MethodSetup& setup)>;
// Makes our own method of that name. `none` ignores the options.
MakeMethod method_of(MethodName name, const ClipOptions& options = {});
// The same with the method and the clip options of a configuration.
inline MakeMethod method_of(const DpConfig& config) { return method_of(config.dp, config.clip); }

// Norms, coefficients, clipped sums. A method derives from it and says in which order they come:
//
//   take(grad)   norms_.admit(grad), add_norms(grad, {}, norms_) (clip/layer_norms.h); keep keepable(grad), or nothing
//   finish()     norms_.require_complete(), count(), add_clipped(layer, coefficients(group)), sink_->complete(weight)
class ClippingMethod : public Method {
 public:
  // For a method from outside, which has no row in the table.
  explicit ClippingMethod(const MethodSetup& setup, const ClipOptions& options = {})
      : ClippingMethod(MethodRow{.name = MethodName::none}, setup, options) {}
  // For a row of the table. A norm algorithm that `options` state replaces the row's.
  ClippingMethod(const MethodRow& row, const MethodSetup& setup, const ClipOptions& options);

  int64_t micro_batch() const override { return row_.micro_batch; }
  bool repeatable() const override { return !options_.norm_timing; }
  bool grows_with_positions() const override {
    return row_.name != MethodName::none && row_.keep != Keep::gradients;  // none: a method from outside
  }
  Clipper* clipper() override { return &clipper_; }
  at::Tensor drain_counted() override;
  std::string settings() const override;
  void begin(int64_t samples, int64_t blank = 0) override;
  at::Tensor objective(const at::Tensor& losses_B, size_t pass) override;
  void record_norms(bool on) override { recording_ = on; }
  std::vector<RecordedNorms> drain_norms() override { return std::exchange(recorded_, {}); }

 protected:
  // Coefficients of a group, once: 0 for samples that are not finite. Throws UsageError before all of the group's norms
  // are known.
  const at::Tensor& coefficients(size_t group);
  // A layer's clipped samples to its buffers (clip/exact_sum.h).
  void add_clipped(const nn::LayerGrad& grad, const at::Tensor& c_B);
  // The same from gradients that were kept per sample.
  void add_clipped(const SampleGradients& grad, const at::Tensor& c_B);
  void count();  // this micro-batch's samples

  nn::GradientSink* sink_;  // receives the clipped sums
  ClipOptions options_;     // as passed to the constructor
  MethodRow row_;           // with the norm algorithm that is used
  Clipper clipper_;         // computes coefficients from norms
  SampleNorms norms_;       // of the present micro-batch
  at::Tensor bad_B_;        // samples whose loss is not finite, and blank ones

 private:
  int64_t present() const { return norms_.samples() - blank_; }
  SampleWeights weights(const at::Tensor& c_B) const { return {c_B, sum_spacing(clipper_.clip_norm())}; }

  int64_t blank_ = 0;
  std::vector<at::Tensor> coefficients_;  // by group
  int64_t counted_ = 0;                   // samples since the counts were drained
  at::Tensor tally_;                      // of them: finite, and below C; on the device
  bool recording_ = false;
  std::vector<RecordedNorms> recorded_;
};

}  // namespace shade::privacy
