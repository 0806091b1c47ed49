// Is the private gradient of a model right? Each method, strategy and dtype against the definition: one sample at a
// time (proof/reference.h). For models, layers and methods of a user's program as for ours: `shade verify` is a caller.
//
//   reference      each sample's gradient, by autograd over plain operators, without the tap     -> clipped, summed
//   differences    that gradient against losses at w + h v and w - h v, in fp64
//   norms, sum     of the step, against the reference
//   alone          a sample that is the only one of a step adds at most C to the sum
//   noise          bit by bit that of the whole weight; its deviation, measured, against C, sigma and the style
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shade/comm/world.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/nn/dtype.h"
#include "shade/privacy/clip/method.h"
#include "shade/proof/reference.h"
#include "shade/shard/runtime.h"

namespace shade::proof {

// A clipping method to check.
struct CheckedMethod {
  std::string name;          // VerifyRow::method
  privacy::MakeMethod make;  // clips as GradientCheck::clip says
};

// Both functions are called on every rank, several times, and must give the same each time.
struct GradientCheck {
  std::string label = "own model";                               // VerifyRow::model
  std::function<std::unique_ptr<models::Model>()> make_model{};  // required; returns a new model
  // Micro-batch `micro_step` of a rank, numbers in `dtype`. Batches of unequal sizes, an empty one among them, and
  // different ranks with different samples show the most. Samples may have several rows (nn::Batch::rows_per_sample).
  std::function<nn::Batch(const models::Model& model, nn::DType dtype, int rank, int64_t micro_step)> batch{};
  const data::Dataset* records = nullptr;  // in place of `batch`: four, none and three of its records in turn

  std::vector<CheckedMethod> methods{};            // empty: all of our own
  std::vector<shard::Strategy> strategies{};       // empty: all that fit the world
  std::vector<nn::DType> dtypes{nn::DType::fp32};  // each is checked
  std::vector<int64_t> micro_steps{1};             // numbers of micro-batches per rank; each is checked
  privacy::ClipOptions clip{};                     // the clip norm is chosen so that half of the samples are clipped
  int directions = 3;    // of differences for each sample; 0: none, unless a layer is no plain operator
  uint64_t seed = 1;     // of weights, which begin at no constant: zeros would hide half of the gradients
  bool verbose = false;  // fills VerifyRow::details
};

// A method, a strategy and a dtype compared with the definition.
struct VerifyRow {
  std::string method;       // CheckedMethod::name
  std::string strategy;     // name of the sharding strategy
  std::string dtype;        // type of the computation: fp32, bf16 or fp64
  std::string model;        // GradientCheck::label
  std::string style;        // name of the privacy::ClipStyle
  std::string reference;    // where its gradients are from: autograd, or the tap (layers that are no plain operators)
  int ranks = 1;            // of the world
  int64_t micro_steps = 1;  // micro-batches per rank
  double max_rel_norm = 0;  // largest relative error of a sample's norm
  double max_rel_grad = 0;  // largest relative error of a weight's sum; bf16: of the whole sum
  double max_rel_difference = 0;       // of the reference's gradients from differences of losses; 0: not compared
  double max_share = 0;                // the longest part of one sample in the sum, over C: at most 1; 0: not tried
  double noise_ratio = 0;              // the noise's deviation over the expected one
  bool noise_equal = true;             // the noise of shards is that of the whole weight, bit by bit
  bool pass = false;                   // all figures are within their limits
  std::vector<std::string> details{};  // norms of every sample of all ranks, if asked for

  std::string json() const;  // all but the details
};

// The marks of a dtype: 1e-5 (fp32), 1e-10 (fp64), 2.5e-2 (bf16, of the whole gradient); and 4 T^1.5 u for samples of T
// positions, because norms are raised by what rounding can do to a sum of T terms (privacy/norms/rounding.h).
double tolerance(nn::DType dtype, int64_t positions = 1);

// Of our own methods, as rows of the table.
std::vector<CheckedMethod> checked_methods(std::span<const privacy::MethodName> names,
                                           const privacy::ClipOptions& options);

// Collective, once in a world (it connects groups of its own). Every rank gets the same rows, and
// `row_done` hears of each on rank 0. Throws UsageError if a model can't be trained privately: a layer that mixes
// samples, a weight whose gradient is not reported.
std::vector<VerifyRow> check_gradients(comm::World& world, std::span<const GradientCheck> checks,
                                       const std::function<void()>& row_done = {});
// The same for one check.
inline std::vector<VerifyRow> check_gradients(comm::World& world, const GradientCheck& check) {
  return check_gradients(world, std::span(&check, 1));
}

// A sample's gradient against differences of its loss: (f(w + h v) - f(w - h v)) / 2h = g . v for random directions v,
// in fp64. Reads losses alone, so it holds for models whose backward is entirely their own.

// The mark: differences in fp64 are exact to about 1e-9 of the gradient's norm.
inline constexpr double kDifferenceMark = 1e-6;

// The directions in which a loss is differentiated.
struct DifferenceOptions {
  int directions = 3;  // of normal numbers, over all trainable weights together
  uint64_t seed = 1;   // of the directions
};

// The largest |difference - g . v| / |g| over samples of the batch and directions; infinity if a loss is not finite
// where the gradient is. Samples whose gradient is not finite are left out. `reference` must be of fp64.
double largest_difference(Reference& reference, const nn::Batch& batch, const DifferenceOptions& options);

}  // namespace shade::proof
