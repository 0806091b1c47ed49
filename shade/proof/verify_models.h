// What `shade verify` tries: small models of every family, and batches that leave little to chance.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shade/models/registry.h"
#include "shade/nn/dtype.h"

namespace shade::proof {

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
