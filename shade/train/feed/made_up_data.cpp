#include "shade/train/feed/made_up_data.h"

#include <ATen/ATen.h>

#include <array>

#include "shade/hash/content_hash.h"
#include "shade/hash/digest.h"

namespace shade::train {

std::string MadeUpData::fingerprint() const {
  return hash::to_hex(hash::digest_of(text("synthetic ", records_, ' ', seq_length_, ' ', seed_, ' ', type_, ' ',
                                           model_->describe(), ' ', model_->config_json())));
}

uint64_t MadeUpData::content_of(int64_t record) const {
  const std::array seed{seed_of(record)};
  return hash::content_hash(std::as_bytes(std::span(seed)))[0];
}

nn::Batch MadeUpData::made(std::span<const int64_t> records, bool training) const {
  const auto shape = [&](int64_t samples) {
    return models::BatchShape{.samples = samples, .seq_length = seq_length_, .training = training};
  };
  if (records.empty()) return model_->synthetic(shape(0), seed_, type_);
  std::vector<nn::Batch> rows;
  for (const auto record : records) rows.push_back(model_->synthetic(shape(1), seed_of(record), type_));
  nn::Batch out;
  for (const auto field : {&nn::Batch::ids_BT, &nn::Batch::mask_BT, &nn::Batch::labels, &nn::Batch::images_BCHW,
                           &nn::Batch::noise_BCHW, &nn::Batch::timesteps_B, &nn::Batch::x_BD, &nn::Batch::y_BD}) {
    if (!(rows.front().*field).defined()) continue;
    std::vector<at::Tensor> parts;
    for (const auto& row : rows) parts.push_back(row.*field);
    out.*field = at::cat(parts);
  }
  for (const auto& [name, first] : rows.front().fields) {
    std::vector<at::Tensor> parts;
    for (const auto& row : rows) parts.push_back(row.field(name));
    out.fields[name] = at::cat(parts);
  }
  return out;
}

}  // namespace shade::train
