#include "shade/train/job_words.h"

#include "shade/base/config.h"
#include "shade/io/digest.h"
#include "shade/privacy/mechanism_version.h"
#include "shade/train/budget.h"

namespace shade::train {

// The bindings here name every field, so that a new one doesn't compile before it was decided on.
Json deciding_words(const JobOptions& options) {
  const auto& [model, data, split, privacy, method, sampling, noise_seed, folder, optimizer, shard, device, dtype,
               batch_size, micro_batch, padding, max_records_per_user, steps, seed, weights, groups, key, before_noise,
               stop, gradient_norm, unaccounted, rehearsal] = options;
  auto steps_by = optimizer;
  auto shards = shard;
  shards.offload_folder.clear();  // of each host
  Config config;
  config.add("optimizer", steps_by);
  config.add("shard", shards);
  auto out = config.json();
  out["model"] = {{"architecture", model->config_json()}, {"settings", model->settings()}};
  out["job"] = {{"batch_size", batch_size},
                {"micro_batch", micro_batch},
                {"padding", to_string(padding)},
                {"max_records_per_user", max_records_per_user},
                {"seed", seed},
                {"dtype", to_string(dtype)},
                {"gradient_norm", gradient_norm},
                {"rehearsal", rehearsal},
                {"noise_seed", noise_seed ? Json(*noise_seed) : Json()}};
  if (privacy) out["privacy"] = event_json(*privacy, noise_seed.has_value(), !unaccounted);
  if (privacy) out["mechanism"] = privacy::kMechanismVersion;
  if (sampling) out["sampling"] = event_json({.mechanism = *sampling}, false);
  return out;
}

Json record_words(const JobOptions& options) {
  if (options.data == nullptr) return nullptr;
  Json out{{"records", options.data->size()}, {"fingerprint", options.data->fingerprint()}};
  if (options.split) out["held_out"] = io::to_hex(io::digest_of(Json(options.split->evaluation_records()).dump()));
  if (options.split && options.split->users() != nullptr) out["users"] = options.split->users()->fingerprint();
  return out;
}

Json clip_words(privacy::Method& method) {
  Json out{{"method", method.settings()}};
  if (method.clipper() != nullptr) out["clip"] = method.clipper()->settings();
  return out;
}

Json world_words(const comm::World& world) {
  const auto& [backend, peer_timeout, rendezvous_timeout, stall_timeout, interface, seal, segment] = world.config();
  const auto& place = world.place();
  return {{"backend", to_string(world.backend())},  // what `backend` stands for
          {"segment", segment.count},
          {"rank", place.rank},
          {"size", place.size}};
}

Json shared_words(const JobOptions& options) {
  auto out = deciding_words(options);
  out["job"]["steps"] = options.steps;
  out["job"]["folder"] = !options.folder.empty();
  out["job"]["data"] = options.data != nullptr;
  if (!options.privacy) return out;
  out["privacy"]["steps"] = options.privacy->steps;
  out["privacy"]["delta"] = options.privacy->delta;
  return out;
}

}  // namespace shade::train
