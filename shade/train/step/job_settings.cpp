#include "shade/train/step/job_settings.h"

#include <cmath>

#include "shade/base/config.h"
#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/hash/digest.h"
#include "shade/privacy/mechanism_version.h"
#include "shade/train/budget/history.h"

namespace shade::train {

// The bindings here name every field, so that a new one doesn't compile before it was decided on.
Json deciding_settings(const JobOptions& options) {
  const auto& [model, data, split, step, sampling, folder, optimizer, shard, device, dtype, batch_size, micro_batch,
               padding, max_records_per_user, steps, seed, weights, groups, unaccounted] = options;
  const auto& [grad_clip, gradient_norm, privacy, method, key, noise_seed, before_noise, stop, micro_shapes,
               rehearsal] = step;
  auto steps_by = optimizer;
  auto shards = shard;
  shards.offload_folder.clear();  // of each host
  Config config;
  config.add("optimizer", steps_by);
  config.add("shard", shards);
  auto out = json_values(config);
  out["model"] = {{"architecture", parse_json(model->config_json())}, {"settings", parse_json(model->settings())}};
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

Json record_settings(const JobOptions& options) {
  if (options.data == nullptr) return nullptr;
  Json out{{"records", options.data->size()}, {"fingerprint", options.data->fingerprint()}};
  if (options.split) out["held_out"] = hash::to_hex(hash::digest_of(Json(options.split->evaluation_records()).dump()));
  if (options.split && options.split->users() != nullptr) out["users"] = options.split->users()->fingerprint();
  return out;
}

Json clip_settings(privacy::Method& method) {
  Json out{{"method", parse_json(method.settings())}};
  if (method.clipper() != nullptr) out["clip"] = parse_json(method.clipper()->settings());
  return out;
}

Json world_settings(const comm::World& world) {
  const auto& [backend, peer_timeout, rendezvous_timeout, stall_timeout, interface, seal, segment] = world.config();
  const auto& place = world.place();
  return {{"backend", to_string(world.backend())},  // what `backend` stands for
          {"segment", segment.count},
          {"rank", place.rank},
          {"size", place.size}};
}

Json shared_settings(const JobOptions& options) {
  auto out = deciding_settings(options);
  out["job"]["steps"] = options.steps;
  out["job"]["folder"] = !options.folder.empty();
  out["job"]["data"] = options.data != nullptr;
  if (!options.step.privacy) return out;
  out["privacy"]["steps"] = options.step.privacy->steps;
  out["privacy"]["delta"] = options.step.privacy->delta;
  return out;
}

namespace {

// Neighbouring data sets differ in one sample alone.
void require_neighbours(const JobOptions& options) {
  const auto& data = *options.data;
  SHADE_REQUIRE(!options.split || options.split->records() == data.size(), "the split is of ", options.split->records(),
                " records, the data set has ", data.size(), "; make the split from the data set");
  SHADE_REQUIRE(!options.split || options.split->each_alone(),
                "records of a private job are held out by position or number, so one additional record would move "
                "others between training and evaluation; hold them out by their content (HeldOut::by_content), or by "
                "user (HeldOut::by_user)");
  SHADE_REQUIRE(data.unit() != data::SampleUnit::overlapping_window,
                "windows of a private job must not share a token, or a token would move two samples; pack the texts "
                "with share_tokens = false");
  if (options.step.privacy->unit == privacy::PrivacyUnit::user) {
    SHADE_REQUIRE(data.unit() == data::SampleUnit::record, "a sample of the data set (", data.describe(), ") is a ",
                  to_string(data.unit()), ", which belongs to no user; bring records");
    SHADE_REQUIRE(options.max_records_per_user > 0,
                  "a job that protects users needs the most records of a user in one step: "
                  "JobOptions::max_records_per_user");
    (void)training_units(options);
    return;
  }
  SHADE_REQUIRE(to_string(data.unit()) == to_string(options.step.privacy->unit), "a sample of the data set (",
                data.describe(), ") is a ", to_string(data.unit()), ", and the privacy event protects a ",
                to_string(options.step.privacy->unit), "; set PrivacyEvent::unit to what a sample is");
}

}  // namespace

int64_t training_units(const JobOptions& options) {
  const auto split = options.split.value_or(HeldOut::by_position(options.data->size(), 0));
  return split.training(options.step.privacy ? options.step.privacy->unit : privacy::PrivacyUnit::record);
}

void require_private(const JobOptions& options) {
  const auto& event = *options.step.privacy;
  if (options.step.rehearsal) return;
  if (!options.unaccounted) {
    event.require_valid();
    SHADE_REQUIRE(event.mechanism.sampler != privacy::Sampler::shuffled,
                  "no accountant supports shuffled batches; choose the poisson sampler, or say that the job is "
                  "unaccounted");
    SHADE_REQUIRE(options.steps <= event.steps, options.steps, " steps, of which the privacy event counts ",
                  event.steps, "; make it count all of them");
  }
  if (options.data == nullptr) return;
  SHADE_REQUIRE(std::abs(static_cast<double>(options.batch_size) - event.divisor) <= 0.5, "JobOptions::batch_size is ",
                options.batch_size, ", and the divisor of the privacy event is ", event.divisor,
                ": both are the expected batch; leave batch_size out");
  SHADE_REQUIRE(!options.data->fingerprint().empty(), "the data set (", options.data->describe(),
                ") has no fingerprint, so it can't be checked that a repeated step uses the same records; "
                "return a hash of everything that batches are made of from data::Dataset::fingerprint()");
  require_neighbours(options);
  SHADE_REQUIRE(event.mechanism.sampler != privacy::Sampler::truncated_poisson ||
                    event.mechanism.population >= training_units(options),
                "population ", event.mechanism.population, " is less than the ", training_units(options), " ",
                to_string(event.unit), "s of the data; expected a bound on their number");
}

void require_noise_for(const optim::OptimConfig& optimizer, bool is_private) {
  SHADE_REQUIRE(
      is_private || optimizer.optimizer != optim::Algorithm::adambc,
      "adambc corrects adamw for the noise of a private run, and this run is not private; choose adamw (--optimizer "
      "adamw), or train privately (--dp auto)");
}

std::string no_epsilon(const JobOptions& options) {
  if (!options.step.privacy) return "not private";
  if (options.step.rehearsal) return "a rehearsal protects nothing";
  if (options.unaccounted) return "the job is unaccounted";
  if (options.step.noise_seed) return "the noise has a seed";
  if (options.step.key) return "the noise key is the caller's, who may know it or have used it before";
  return {};
}

void require_same(const comm::Group& control, const Json& words, const std::string& advice) {
  if (control.size() == 1) return;
  const auto written = words.flatten().dump();
  const auto mine = Json::parse(written);
  const auto first = Json::parse(checkpoint::from_rank0(control, "reading the job's options", [&] { return written; }));
  checkpoint::together(control, "comparing the job's options with rank 0's", [&] {
    std::vector<std::string> differ;
    auto all = first;
    all.update(mine);
    for (const auto& [field, value] : all.items())
      if (mine.value(field, Json()) != first.value(field, Json()))
        differ.push_back(text(field.substr(1), " is ", mine.value(field, Json()).dump(), ", rank 0 has ",
                              first.value(field, Json()).dump()));
    SHADE_REQUIRE(differ.empty(), join(differ, ", "), "; ", advice);
  });
}

void require_same_records(const comm::Group& control, const JobOptions& options) {
  if (control.size() == 1 || options.data == nullptr) return;
  std::string mine;
  checkpoint::together(control, "reading the records",
                       [&] { mine = hash::to_hex(hash::digest_of(record_settings(options).dump())); });
  const auto first = checkpoint::from_rank0(control, "reading the records' fingerprint", [&] { return mine; });
  checkpoint::together(control, "comparing the records with rank 0's", [&] {
    SHADE_REQUIRE(mine == first, "the records of this rank (", options.data->describe(),
                  ") or those it holds out are not those of rank 0, or are in another order: one record could be "
                  "drawn twice in a step, which no epsilon accounts for. Give every rank the same files");
  });
}

}  // namespace shade::train
