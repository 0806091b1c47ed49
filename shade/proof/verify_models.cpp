#include "shade/proof/verify_models.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace shade::proof {
namespace {

using models::Task;

models::SizeOverrides odd() {  // T, D and P all different
  models::SizeOverrides out;
  out.vocab_size = 71;
  return out;
}

}  // namespace

VerifyModel VerifyModel::with_users(int64_t most) const {
  auto out = *this;
  out.label += ", users";
  out.max_records = most;
  return out;
}

VerifyModel VerifyModel::with_nan() const {
  auto out = *this;
  out.label += ", NaN sample";
  out.not_finite = true;
  return out;
}

nn::Batch batch_of(const models::Model& made, const VerifyModel& model, uint64_t seed, const BatchPlace& place) {
  static constexpr int64_t kSizes[] = {3, 1, 0, 2};
  const auto& [dtype, rank, micro_step] = place;
  const auto samples = kSizes[(rank + micro_step) % 4];
  const auto t = model.seq_length, most = model.max_records;
  auto batch = made.synthetic({.samples = 4 * most, .seq_length = t},
                              seed * 100 + static_cast<uint64_t>(rank * 10 + micro_step), nn::scalar_type(dtype));
  if (batch.mask_BT.defined()) {
    batch.ids_BT.select(1, 1).copy_(batch.ids_BT.select(1, 0));  // a token twice in a sample
    const auto length = t - at::arange(4 * most).remainder(std::max<int64_t>(1, t / 2));
    batch.mask_BT = (at::arange(t) < length.unsqueeze(1)).to(at::kLong);
    if (batch.labels.dim() == 2) batch.labels = batch.labels.masked_fill(batch.mask_BT == 0, -100);
  }
  if (most > 1) {
    const auto present = most - (at::arange(4) + rank).remainder(most);
    batch.rows_per_sample = most;
    batch.present_B = (at::arange(most) < present.unsqueeze(1)).to(at::kLong).view(-1);
  }
  if (model.not_finite)  // the second sample
    for (auto* numbers : {&batch.images_BCHW, &batch.x_BD})
      if (numbers->defined()) numbers->select(0, most).view(-1)[0] = std::numeric_limits<double>::quiet_NaN();
  return batch.rows(0, samples);
}

SmallModels::SmallModels(int64_t seq_length)
    : classifier{"llama classify", "llama-nano", odd(), {.task = Task::classify}, seq_length},
      summed{"llama lm, sum loss",
             "llama-nano",
             odd(),
             {.task = Task::lm, .loss_mean = models::LossMean::token},
             seq_length},
      tied{"qwen2 tied, mean loss", "qwen2-nano", odd(), {.task = Task::lm}, seq_length},
      dit{"dit", "dit-nano", {}, {.task = Task::denoise}, seq_length},
      linear{"linear with bias", "linear-nano", {}, {.task = Task::regress}, seq_length},
      lora{"llama LoRA", "llama-nano", odd(), {.task = Task::classify}, seq_length} {
  lora.options.lora = nn::LoraOptions{.rank = 3};
  const auto named = all();
  for (const auto& name : models::model_names()) {
    const bool known = std::any_of(named.begin(), named.end(), [&](const auto& model) { return model.name == name; });
    if (name.ends_with("-nano") && !known) others.push_back({name, name, {}, {}, seq_length});
  }
}

std::vector<VerifyModel> SmallModels::all() const {
  std::vector<VerifyModel> out{classifier, summed, tied, dit, linear, lora};
  out.insert(out.end(), others.begin(), others.end());
  for (const auto* model : {&tied, &dit, &linear, &lora}) out.push_back(model->with_users(3));
  return out;
}

}  // namespace shade::proof
