// What a private step must sum, from the definition alone: each sample's gradient, clipped, added up in fp64.
//
// Nothing of the private step is used. A sample's gradient is autograd's, over plain operators of libtorch
// (nn/function.h): no activation and no output gradient that a layer reports is read. Clipping and the noise's
// deviation are written down here a second time. What both sides share is what is given: the model's forward, the
// weights and the batch.
//
// A model from outside may have layers that are no plain operators; autograd then misses their weights, and the
// gradients that they report to the tap are all there is. Those are compared with differences of losses
// (proof/check_gradients.h), which read no report at all.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "shade/base/names.h"
#include "shade/models/model.h"
#include "shade/nn/dtype.h"
#include "shade/privacy/config.h"

namespace shade::proof {

// Weights that hide nothing: where a model begins at zero (adaLN, LoRA's B, biases) half of the gradients would be too.
// In fp32.
at::Tensor checked_value(const nn::Weight& weight, uint64_t seed);

// The same numbers in another floating type, on the host.
nn::Batch in_type(const nn::Batch& batch, at::ScalarType type);

// The records that a sample is made of, each alone.
std::vector<nn::Batch> records_of(const nn::Batch& batch, int64_t sample);

enum class Source { autograd, tap };
inline std::span<const Name<Source>> names_of(Source) {
  static constexpr Name<Source> kNames[] = {{"autograd", Source::autograd}, {"tap", Source::tap}};
  return kNames;
}

// The gradient of one sample, whole, in fp64 on the host, by trainable weight.
struct SampleGradient {
  int rank = 0;
  std::map<nn::WeightId, at::Tensor> parts;

  double square() const;
  bool finite() const;  // one that is not is left out of the sum
};

// Finds samples' gradients with its own model, on the host whatever is checked. In fp64, from weights rounded to
// `dtype`; of steps in bf16 in bf16, which rounds activations by more than the mark is.
class Reference {
 public:
  // `seed`: of checked_value().
  Reference(std::unique_ptr<models::Model> model, nn::DType dtype, uint64_t seed);

  // Of a sample of a micro-batch. Of several records it is the mean of theirs.
  SampleGradient gradient(const nn::Batch& batch, int64_t sample) { return gradient(records_of(batch, sample)); }
  SampleGradient gradient(std::vector<nn::Batch> records);
  Source source() const { return source_; }  // of the gradients so far

  models::Model& model() { return *model_; }

 private:
  bool by_autograd(const std::vector<nn::Batch>& records, SampleGradient& to);
  void by_tap(const std::vector<nn::Batch>& records, SampleGradient& to);

  std::unique_ptr<models::Model> model_;
  at::ScalarType compute_;
  Source source_ = Source::autograd;
};

// How samples are clipped, by definition.
struct ClipRule {
  privacy::ClipOptions options{};
  double clip_norm = 1;

  // What each trainable weight's part of a sample is multiplied with; 0 if the sample is not finite.
  std::map<nn::WeightId, double> factors(const nn::Parameters& parameters, const SampleGradient& sample) const;
  // Of the noise on each element of the sum: sigma times the largest length that a clipped sample has, and with
  // adaptive clipping what pays for the count as well.
  double noise_deviation(double sigma) const;
};

// A clip norm that clips half of the samples, and leaves half as they are. Throws UsageError if there is none.
double middle_norm(std::span<const SampleGradient> samples);

// What is compared with a step.
struct ExpectedSum {
  std::vector<std::vector<double>> norms;                              // by rank, in the order of its samples
  std::vector<std::map<nn::WeightId, std::vector<double>>> by_weight;  // squared, by rank
  std::map<nn::WeightId, at::Tensor> sum;

  size_t samples() const {
    size_t out = 0;
    for (const auto& of_rank : norms) out += of_rank.size();
    return out;
  }
};
ExpectedSum expected_sum(const nn::Parameters& parameters, std::span<const SampleGradient> samples,
                         const ClipRule& rule, int ranks);

}  // namespace shade::proof
