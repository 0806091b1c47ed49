#include "shade/train/training_facts.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/utc.h"
#include "shade/io/model_file.h"
#include "shade/io/sha256.h"
#include "shade/io/weight_folder.h"
#include "shade/train/budget.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

using privacy::Sampler;

bool truncated(const Recipe& recipe) { return recipe.budget.sampler == Sampler::truncated_poisson; }

// The number that a start with these steps had, if it follows from them to the digit.
std::optional<int64_t> units_behind(const Recipe& recipe, const SampledSteps& steps) {
  const auto& [mechanism, divisor] = steps;
  if (recipe.budget.sample_rate == 0) {
    const auto units = std::llround(divisor / mechanism.sample_rate);
    if (units > 0 && divisor / static_cast<double>(units) == mechanism.sample_rate) return units;
    return std::nullopt;
  }
  if (truncated(recipe) && recipe.budget.population == 0 && mechanism.population > 1) return mechanism.population - 1;
  return std::nullopt;
}

TrainingFacts::Count units_of(std::span<const Recipe> starts, std::span<const SampledSteps> steps) {
  const auto& recipe = starts.back();
  TrainingFacts::Count out{.of = to_string(unit_of(recipe)) + "s", .number = {}, .not_stated = {}};
  if (steps.empty()) {
    out.not_stated = "without a guarantee no number is taken as public";
    return out;
  }
  if (std::none_of(starts.begin(), starts.end(), takes_number_as_public)) {
    out.not_stated = "it is private; the sampling rate was given, so this number is not taken as public";
    return out;
  }
  if (std::all_of(starts.begin(), starts.end(), takes_number_as_public))
    out.number = units_behind(recipe, steps.front());
  for (const auto& kind : steps)
    if (units_behind(recipe, kind) != out.number) out.number.reset();
  if (!out.number) out.not_stated = "it differs between the starts of the run, or does not follow from its ledger";
  return out;
}

std::vector<TrainingFacts::Count> counts_of(std::span<const Recipe> starts, std::span<const SampledSteps> steps) {
  std::vector<TrainingFacts::Count> out{units_of(starts, steps)};
  const auto unit = unit_of(starts.back());
  if (unit != privacy::PrivacyUnit::record)
    out.push_back({.of = "records",
                   .number = {},
                   .not_stated = text("it is private; the unit of privacy is a ", to_string(unit),
                                      ", and no number of records is taken as public")});
  return out;
}

// models--ORGANISATION--NAME/snapshots/COMMIT of the hub's cache.
bool read_hub_name(const fs::path& folder, TrainingFacts::Base& out) {
  const std::string begin = "models--";
  auto name = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() != "snapshots" || !name.starts_with(begin)) return false;
  name = name.substr(begin.size());
  if (const auto at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
  out.name = name;
  out.revision = folder.filename().string();
  return true;
}

TrainingFacts::Base base_of(const Recipe& recipe) {
  TrainingFacts::Base out;
  if (recipe.model.weights.empty()) return out;
  const fs::path weights = (fs::path(recipe.model.weights) / "").parent_path();
  if (!read_hub_name(weights, out)) out.name = last_name(weights);
  if (out.name.empty()) out.name = "a folder without a name";
  if (!fs::exists(weights) || (fs::is_directory(weights) && !io::has_weights(weights))) return out;
  for (const auto& file : io::WeightFolder(weights).files()) {
    const auto opened = io::open_model_file(file.parent_path(), file.filename());
    out.files.push_back({file.filename().string(), io::sha256_of(*opened)});
  }
  return out;
}

Json optimizer_settings(const optim::OptimConfig& optim) {
  Json out{{"optimizer", to_string(optim.optimizer)},
           {"learning_rate", optim.lr},
           {"schedule", to_string(optim.schedule)},
           {"warmup_steps", optim.warmup_steps},
           {"weight_decay", optim.weight_decay}};
  if (optim.optimizer == optim::Algorithm::sgd) {
    out["momentum"] = optim.momentum;
    if (optim.nesterov) out["nesterov"] = true;
  } else {
    out.update({{"beta1", optim.beta1}, {"beta2", optim.beta2}, {"eps", optim.eps}});
  }
  if (optim.optimizer == optim::Algorithm::adambc) out["noise_floor"] = optim.noise_floor;
  if (optim.grad_clip > 0) out["grad_clip"] = optim.grad_clip;
  if (optim.ema > 0) out["ema"] = optim.ema;
  return out;
}

Json settings_stated(const Recipe& recipe) {
  const auto& [model, train] = std::tie(recipe.model, recipe.train);
  auto out = optimizer_settings(recipe.optim);
  out["steps"] = train.steps;
  out["batch_size"] = train.batch_size;
  if (train.eval_rate > 0) out["eval_rate"] = train.eval_rate;
  const auto kind = model.model_kind(recipe.sizes).value;
  if (kind == kLanguageModel || kind == kTextClassifier) out["seq_length"] = train.seq_length;
  out["dtype"] = to_string(model.dtype);
  if (model.lora_rank > 0)
    out.update(
        {{"lora_rank", model.lora_rank}, {"lora_alpha", model.lora_alpha}, {"lora_targets", model.lora_targets}});
  if (recipe.dp.is_private()) out["clipping_method"] = to_string(recipe.dp.dp);
  if (recipe.dp.is_private() && recipe.dp.clip_style == privacy::ClipStyle::adaptive)
    out.update({{"clip_quantile", recipe.dp.clip_quantile},
                {"clip_rate", recipe.dp.clip_rate},
                {"count_sigma", recipe.dp.count_sigma}});
  return out;
}

// Of 2026-01-31T12:00:00Z, as utc_text() writes it.
std::string day_in(const Json& environment) {
  const auto date = environment.is_object() && environment.contains("date") ? environment["date"] : Json();
  const auto day = date.is_string() ? date.get<std::string>().substr(0, 10) : std::string();
  return is_day(day) ? day : std::string();
}

std::string data_of(const Recipe& recipe) {
  if (recipe.data.data_folder.empty() && recipe.train.synthetic) return "synthetic records, generated by shade";
  return last_name(recipe.data.data_folder);
}

}  // namespace

bool takes_number_as_public(const Recipe& recipe) {
  return recipe.budget.sample_rate == 0 || (truncated(recipe) && recipe.budget.population == 0);
}

std::string last_name(const fs::path& path) {
  const auto name = (path / "").lexically_normal().parent_path().filename().string();
  return name == "." || name == ".." ? std::string() : name;
}

TrainingFacts facts_of(std::span<const Recipe> starts, std::span<const SampledSteps> steps, const Json& environment) {
  TrainingFacts out{.started = day_in(environment), .data = {}};
  std::vector<std::string> data;
  for (const auto& start : starts) {
    const auto name = data_of(start);
    if (!name.empty() && std::find(data.begin(), data.end(), name) == data.end()) data.push_back(name);
  }
  out.data = join(data, ", ");
  out.counts = counts_of(starts, steps);
  out.base = base_of(starts.front());
  for (const auto& start : starts.subspan(1)) {
    auto base = base_of(start);
    if (base != out.base && std::find(out.later_bases.begin(), out.later_bases.end(), base) == out.later_bases.end())
      out.later_bases.push_back(std::move(base));
  }
  out.settings = settings_stated(starts.back());
  return out;
}

}  // namespace shade::train
