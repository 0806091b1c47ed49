#include "shade/train/run/model_states.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>

#include "shade/base/error.h"
#include "shade/catalog/remedies.h"
#include "shade/io/weight_folder.h"
#include "shade/models/weights.h"
#include "shade/nn/adapter.h"
#include "shade/profile/host_memory.h"

namespace shade::train {
namespace {

constexpr double kMost = 0x1p62;  // the sum of two fits an int64_t

Bytes saturated(double bytes) { return {static_cast<int64_t>(std::min(bytes, kMost))}; }

double width(nn::DType type) { return static_cast<double>(c10::elementSize(nn::scalar_type(type))); }

double state_width(const optim::OptimConfig& config) {  // of one element, all states together
  return static_cast<double>(optim::make_optimizer(config)->state_bytes(1).count);
}

}  // namespace

Bytes ModelStates::total() const {
  return saturated(static_cast<double>(weights.count) + static_cast<double>(gradients.count) +
                   static_cast<double>(optimizer.count));
}

ModelStates plain_states(const models::ModelSize& size, nn::DType type, int local_ranks) {
  const double each = width(type) * local_ranks;
  return {.weights = saturated(each * static_cast<double>(size.parameters)),
          .gradients = saturated(each * static_cast<double>(size.trainable)),
          .optimizer = {}};
}

// As shard/sharded_unit.cpp allocates: masters and gradients in fp32 at least, frozen weights in the type of the
// computation. Where nothing is sharded, weights of another type than their masters exist twice. Where gathered weights
// stay after forward (zero2), every rank holds all of them then; they go before the gradients have come.
ModelStates model_states(const models::ModelSize& size, const StatesPlan& plan) {
  const auto policy = shard::policy_of(plan.shard, plan.ranks);
  const auto trained = static_cast<double>(size.trainable);
  const auto frozen = static_cast<double>(size.parameters - size.trainable);
  const double compute = width(plan.compute), master = std::max(compute, width(nn::DType::fp32));
  const bool gathered = policy.shard > 1 && !policy.reshard;
  double copies = 0;
  if (policy.shard == 1 && compute != master) copies = trained * compute;
  if (gathered) copies = (trained + frozen) * compute;
  const double held = plan.shard.offload ? 0 : 1.0 / policy.shard;  // in memory, of what a rank owns
  const double states = plan.optim ? state_width(*plan.optim) : 0;
  const auto local = static_cast<double>(plan.local_ranks);
  return {.weights = saturated(local * (copies + held * (trained * master + frozen * compute))),
          .gradients = saturated(gathered ? 0 : local * held * trained * master),
          .optimizer = saturated(local * held * trained * states)};
}

void require_memory(const ModelStates& states, Bytes available) {
  SHADE_REQUIRE(states.total() <= available, "the model states need ", to_string(states.total()),
                " on this host (weights ", to_string(states.weights), ", gradients ", to_string(states.gradients),
                ", optimizer ", to_string(states.optimizer), "), and ", to_string(available), " are available; ",
                catalog::kLessState);
}

void require_memory(const ModelStates& states) {
  const auto memory = profile::host_memory();
  require_memory(states, memory.available + memory.swap);
}

namespace {

bool may_be_new(const nn::Weight& weight) { return nn::is_adapter(weight.name()) || weight.task_head(); }

}  // namespace

void start_from(const std::string& place, const nn::Parameters& parameters, shard::Runtime& runtime, uint64_t seed) {
  SHADE_REQUIRE(std::filesystem::exists(place), "no weights at ", place,
                " (--weights); expected a folder or file of safetensors");
  const io::WeightFolder folder(place);
  models::refuse_unknown(folder, parameters);
  runtime.fill([&](const nn::Weight& weight, int64_t begin, const at::Tensor& out) {
    const auto name = models::stored_name(folder, weight.name());
    if (may_be_new(weight) && !folder.contains(name)) return nn::initialise(out, weight, seed, begin);
    SHADE_REQUIRE(folder.contains(name), place, " has no tensor '", name,
                  "', which the model needs; are these weights of this architecture and task?");
    const auto& found = folder.info(name);
    SHADE_REQUIRE(found.shape == weight.shape(), place, ": tensor '", name, "' has shape ",
                  at::IntArrayRef(found.shape), ", the model expects ", at::IntArrayRef(weight.shape()));
    out.copy_(folder.tensor(name).view(-1).narrow(0, begin, out.numel()));
  });
}

}  // namespace shade::train
