#include "shade/train/made_up_data.h"

#include <ATen/ATen.h>

#include "shade/io/digest.h"

namespace shade::train {

std::string MadeUpData::fingerprint() const {
  return io::to_hex(io::digest_of(text("synthetic ", records_, ' ', seq_length_, ' ', seed_, ' ', type_, ' ',
                                       model_->describe(), ' ', model_->config_json().dump())));
}

nn::Batch MadeUpData::batch(std::span<const int64_t> records) const {
  if (records.empty()) return model_->synthetic({.samples = 0, .seq_length = seq_length_}, seed_, type_);
  std::vector<nn::Batch> rows;
  for (const auto record : records)
    rows.push_back(model_->synthetic({.samples = 1, .seq_length = seq_length_},
                                     seed_ + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(record + 1), type_));
  nn::Batch out;
  for (const auto field : {&nn::Batch::ids_BT, &nn::Batch::mask_BT, &nn::Batch::labels, &nn::Batch::images_BCHW,
                           &nn::Batch::noise_BCHW, &nn::Batch::timesteps_B, &nn::Batch::x_BD, &nn::Batch::y_BD}) {
    if (!(rows.front().*field).defined()) continue;
    std::vector<at::Tensor> parts;
    for (const auto& row : rows) parts.push_back(row.*field);
    out.*field = at::cat(parts);
  }
  return out;
}

}  // namespace shade::train
