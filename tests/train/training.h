// A recipe trained by ranks that are threads, and all that can be looked at afterwards.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "shade/train/run/trainer.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"
#include "tests/train/remains.h"

namespace shade::train {

struct Trained {
  TrainResult result;
  std::vector<at::Tensor> weights;
  std::vector<Json> metrics;  // of reported steps
  int64_t micro_batch = 0;

  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const auto& line : metrics)
      if (own(line).contains("step_ms")) out.push_back(line["step"]);
    return out;
  }
  std::vector<double> losses() const {
    std::vector<double> out;
    for (const auto& line : metrics)
      if (own(line).contains("step_ms")) out.push_back(own(line)["loss"]);
    return out;
  }
  // What comes from the records.
  static const Json& own(const Json& line) { return line.contains("not_private") ? line["not_private"] : line; }
};

using Words = std::vector<std::pair<std::string, std::string>>;

inline Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// A word of key "recipe" is a file to be read first. Without it training starts from random weights unless the words
// name some, on synthetic records unless they name a folder.
inline void set_words(Config& config, const Words& words) {
  const auto named = [&](const std::string& key) {
    return std::any_of(words.begin(), words.end(), [&](const auto& word) { return word.first == key; });
  };
  if (!named("recipe") && !named("model.weights")) config.set("model.from_scratch", "true");
  if (!named("recipe") && !named("data.data_folder")) config.set("train.synthetic", "true");
  for (const auto& [key, word] : words) {
    if (key == "recipe")
      config.read_toml(word);
    else
      config.set(key, word);
  }
}

// `stop` is asked by every rank before each step, with the number of steps that rank has made here.
inline Trained train_in(const std::filesystem::path& folder, int ranks, const Words& words,
                        const std::function<bool(int64_t)>& stop = {},
                        comm::BackendKind backend = comm::BackendKind::gloo) {
  Trained out;
  const auto rank = [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    config.set("train.output", folder.string());
    config.set("train.log_every", "1");
    config.set("train.peak_gflops", "100");
    set_words(config, words);
    int64_t made = 0;
    Trainer trainer(world, resolve(recipe, config.stated(), world.size()), nullptr,
                    {.quiet = true, .stop = [&] { return stop && stop(made++); }});
    const auto result = trainer.run();
    std::vector<at::Tensor> weights;
    for (const auto& weight : trainer.model().parameters().weights())
      weights.push_back(trainer.runtime().whole(weight).cpu());
    if (world.rank() != 0) return;
    out.result = result;
    out.weights = weights;
    out.micro_batch = trainer.micro_batch();
  };
  test::run_ranks(ranks, test::As::threads, rank, {.backend = backend});
  out.metrics = read_metrics(folder);
  return out;
}

// What a run says that is refused before its first step.
template <class Fault = UsageError>
std::string refused(const std::filesystem::path& folder, const Words& words) {
  std::string said;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    set_words(config, words);
    config.set("train.output", folder.string());
    said = test::fault<Fault>(
        [&] { Trainer(world, resolve(recipe, config.stated(), world.size()), nullptr, {.quiet = true}); });
  });
  return said;
}

inline double distance(const Trained& a, const Trained& b) {
  double gap = 0, size = 0;
  for (size_t i = 0; i < a.weights.size(); ++i) {
    gap += (a.weights[i] - b.weights[i]).to(at::kDouble).square().sum().item<double>();
    size += b.weights[i].to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(gap / size);
}

inline bool equal(const Trained& a, const Trained& b) {
  for (size_t i = 0; i < a.weights.size(); ++i)
    if (!at::equal(a.weights[i], b.weights[i])) return false;
  return !a.weights.empty() && a.weights.size() == b.weights.size();
}

}  // namespace shade::train
