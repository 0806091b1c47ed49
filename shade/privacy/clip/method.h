// A clipping method: what happens between backward and the sum of clipped gradients.
//
//   method.begin(samples);
//   for (pass : method.passes()) backward(method.objective(losses_B, pass))      layers -> take()
//   method.finish();                                                             -> sink.buffer(w) +=, sink.complete(w)
//
// The user's words are rows of one table (clip/method.cpp): passes x norm algorithm x what is kept of a layer.
#pragma once

#include <memory>

#include "shade/nn/gradients.h"
#include "shade/privacy/clip/sample_norms.h"

namespace shade::privacy {

// What of a layer waits until its samples' norms are known: nothing (a second backward makes it anew), its books
// (activation and output gradient), or each sample's gradient.
enum class Keep { nothing, books, gradients };

struct MethodRow {
  MethodName name;
  int passes = 1;
  NormAlgorithm norm = NormAlgorithm::automatic;
  Keep keep = Keep::nothing;
  int64_t micro_batch = 0;  // samples at a time; 0: as they come
  bool choose = false;      // keep and norm are chosen for each layer and shape
};
const MethodRow& row_of(MethodName name);

// One walk over the graph.
struct MethodPass {
  bool gradients = true;  // weights' gradients are final when backward leaves their unit
  bool last = true;       // the graph and the weights are not needed again
};

// What the samples of the step so far looked like. Not private: for whoever runs the training, not for release.
struct ClipCounts {
  int64_t samples = 0, clipped = 0, not_finite = 0;  // clipped: norm > C (between C and its margin is not counted)
  double below = 0;                                  // sum of [norm <= C] - 1/2, for adaptive clipping
};

// The squared norms of one micro-batch, for those who check them. Not private.
struct RecordedNorms {
  at::Tensor squares_B;  // of all weights together
  std::map<nn::WeightId, at::Tensor> by_weight;
};

class Method : public nn::GradientTap {
 public:
  Method(const nn::Parameters& parameters, nn::GradientSink& sink, const DpConfig& config);
  ~Method() override = default;

  virtual std::span<const MethodPass> passes() const = 0;
  int64_t micro_batch() const { return row_.micro_batch; }

  // The last `blank` of the samples are padding (train/fixed_shapes.h): they weigh nothing and are counted nowhere.
  void begin(int64_t samples, int64_t blank = 0);
  // What to differentiate in a pass: [B] losses, each sample's own -> a number.
  virtual at::Tensor objective(const at::Tensor& losses_B, size_t pass);
  virtual void finish() = 0;

  Clipper& clipper() { return clipper_; }
  double sensitivity() const { return clipper_.sensitivity(); }
  const SampleNorms& norms() const { return norms_; }
  ClipCounts drain_counts() { return std::exchange(counts_, {}); }
  void record_norms(bool on) { recording_ = on; }
  std::vector<RecordedNorms> drain_norms() { return std::exchange(recorded_, {}); }

 protected:
  // Coefficients of a group, once: counted, and 0 for samples that are not finite.
  const at::Tensor& coefficients(size_t group);
  // The clipped sum of a layer to its buffers. Samples that are not finite become zeros: 0 times infinity is no 0.
  // Their places stay, so that a sample doesn't change the shapes in which others are summed.
  void add_clipped(const nn::LayerGrad& grad, const at::Tensor& c_B);
  void add_clipped(const SampleGradients& grad, const at::Tensor& c_B);
  void count();  // this micro-batch's samples

  nn::GradientSink* sink_;
  DpConfig config_;
  MethodRow row_;
  Clipper clipper_;
  SampleNorms norms_;
  at::Tensor bad_B_;  // samples whose loss is not finite, and blank ones

 private:
  int64_t present() const { return norms_.samples() - blank_; }

  int64_t blank_ = 0;
  std::vector<at::Tensor> coefficients_;  // by group
  ClipCounts counts_;
  bool recording_ = false;
  std::vector<RecordedNorms> recorded_;
};

// Null for `none`: the plain tap does that. The parameters and the sink must outlive it.
std::unique_ptr<Method> make_method(const nn::Parameters& parameters, nn::GradientSink& sink, const DpConfig& config);

}  // namespace shade::privacy
