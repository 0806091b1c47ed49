// `shade verify`: is every private gradient right? Models of the registry through proof/check_gradients.h, and whole
// steps from their records on through proof/check_step.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shade/models/registry.h"
#include "shade/nn/dtype.h"
#include "shade/privacy/config.h"
#include "shade/proof/check_gradients.h"
#include "shade/train/spec/run_spec.h"

namespace shade::proof {

struct VerifyConfig {
  std::vector<std::string> methods, strategies;  // empty: all that fit the world
  std::vector<std::string> dtypes, clip_styles;  // empty: every one, fp32 and flat on all models and strategies
  bool all = false;                              // the product of models, dtypes, accumulation and strategies
  bool verbose = false;
  bool enable_profiling = false;  // for who runs it: the phases' times are of interest
};

// Runs that are verified. Without a model: small models of every family.
struct Verification : train::RunSpec {
  VerifyConfig verify;

  explicit Verification(VerifyConfig checks = {});
  void declare(Config& config);

 private:
  void declare_model(Fields& fields);   // [model], as in recipes
  void declare_checks(Fields& fields);  // [verify]
};

// What such a verification leaves out that the one without options has, in words; empty: nothing.
std::string left_out(const Verification& run);

// Collective; every rank gets the same rows. `progress` hears of every row on rank 0.
std::vector<VerifyRow> verify(comm::World& world, const Verification& run,
                              const std::function<void(size_t done, size_t all)>& progress);

// What `shade verify` tries: small models of every family, and batches that leave little to chance.

// A model and how it is trained.
struct VerifyModel {
  std::string label, name;
  models::SizeOverrides sizes;
  models::ModelOptions options;
  int64_t seq_length = 7;
  int64_t max_records = 1;  // of a user, who is a sample: 1 to so many
  bool not_finite = false;  // one sample has a NaN in it: it must be left out. For models that read numbers

  std::unique_ptr<models::Model> make() const { return models::make_model(name, sizes, options); }
  VerifyModel with_users(int64_t most) const;
  VerifyModel with_nan() const;
};

// Unequal batches, an empty one among them; different data everywhere; texts of different lengths. Users have unequal
// numbers of records, and their blank rows hold what must not count.
struct BatchPlace {
  nn::DType dtype;
  int rank;
  int64_t micro_step;
};
nn::Batch batch_of(const models::Model& made, const VerifyModel& model, uint64_t seed, const BatchPlace& place);

// With an added weight, biases, a tied table and adapters; and each family of the registry that is not here by name.
struct SmallModels {
  explicit SmallModels(int64_t seq_length);

  VerifyModel classifier, summed, tied, dit, linear, lora;
  std::vector<VerifyModel> others;

  std::vector<VerifyModel> all() const;  // and four of them with users
};

}  // namespace shade::proof
