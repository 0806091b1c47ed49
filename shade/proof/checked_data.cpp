#include "shade/proof/checked_data.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::proof {

// Ten records in a row are of four users: 1, 2, 3 and 4 each.
std::optional<data::UserId> CheckedData::user_of(int64_t record) const {
  static constexpr int64_t kUsers[] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3};
  return data::user_id(text("user ", record / 10 * 4 + kUsers[record % 10]));
}

nn::Batch CheckedData::padded_batch(std::span<const int64_t> records, int64_t length) const {
  const auto full = [&](int64_t samples, uint64_t seed) {
    return model_->synthetic({.samples = samples, .seq_length = max_length_}, seed, at::kFloat);
  };
  const auto none = full(0, seed_);
  std::vector<at::Tensor> ids{none.ids_BT.narrow(1, 0, length)}, masks{ids.front()}, labels{none.labels};
  for (const auto record : records) {
    SHADE_REQUIRE(length_of(record) <= length, "record ", record, " has ", length_of(record), " positions, not ",
                  length);
    const auto made = full(1, seed_of(record));
    masks.push_back((at::arange(length) < length_of(record)).to(at::kLong).unsqueeze(0));
    ids.push_back(made.ids_BT.narrow(1, 0, length) * masks.back());
    labels.push_back(made.labels);
  }
  nn::Batch out;
  out.ids_BT = at::cat(ids);
  out.mask_BT = at::cat(masks);
  out.labels = at::cat(labels);
  return out;
}

}  // namespace shade::proof
