#include "shade/proof/verify.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/proof/check_step.h"
#include "shade/proof/meshes.h"
#include "shade/proof/reference.h"
#include "shade/proof/verify_models.h"

namespace shade::proof {
namespace {

using nn::DType;
using privacy::ClipStyle;
using shard::Strategy;

template <class Enum>
std::vector<Enum> chosen(const std::vector<std::string>& words, std::vector<Enum> otherwise) {
  if (words.empty()) return otherwise;
  std::vector<Enum> out;
  for (const auto& word : words) out.push_back(parse_name<Enum>(word));
  return out;
}

// A model with all that it is tried with, by every method.
struct Planned {
  VerifyModel model;
  std::vector<ClipStyle> styles;
  std::vector<DType> dtypes;
  std::vector<int64_t> micro_steps;
  std::vector<Strategy> strategies;
};

VerifyModel named_model(const VerifyConfig& config, const models::SizeOverrides& sizes) {
  VerifyModel own{.label = config.model,
                  .name = config.model,
                  .sizes = sizes,
                  .seq_length = config.seq_length,
                  .max_records = config.max_records_per_user};
  own.options.task = config.task;
  if (config.lora_rank > 0) own.options.lora = nn::LoraOptions{.rank = config.lora_rank};
  return own;
}

// What is not asked for by name is tried on some models with one strategy: the whole product takes an hour.
std::vector<Planned> plan(const VerifyConfig& config, const models::SizeOverrides& sizes, int ranks) {
  const auto styles = chosen<ClipStyle>(config.clip_styles, {ClipStyle::flat});
  const auto dtypes = chosen<DType>(
      config.dtypes, config.all ? std::vector{DType::fp32, DType::fp64, DType::bf16} : std::vector{DType::fp32});
  const auto strategies = chosen(config.strategies, catalog::strategies_for(ranks));
  const std::vector<int64_t> micro_steps = config.all ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1};
  if (!config.model.empty()) return {{named_model(config, sizes), styles, dtypes, micro_steps, strategies}};

  const SmallModels small(config.seq_length);
  const std::vector one{strategies.back()};
  std::vector<Planned> out;
  for (const auto& model : small.all()) out.push_back({model, styles, dtypes, micro_steps, strategies});
  if (config.all) {
    auto checkpointed = small.classifier;
    checkpointed.label = "llama checkpointed";
    checkpointed.options.checkpointing = models::Checkpointing::block;
    out.push_back({checkpointed, styles, dtypes, micro_steps, strategies});
  } else {
    if (config.dtypes.empty())
      for (const auto& model : small.all()) out.push_back({model, styles, {DType::bf16}, {1}, one});
    out.push_back({small.tied, styles, {dtypes.front()}, {3}, one});
  }
  if (config.clip_styles.empty())
    for (const auto* model : {&small.tied, &small.dit, &small.lora})
      out.push_back({*model,
                     {ClipStyle::per_layer, ClipStyle::group, ClipStyle::automatic, ClipStyle::adaptive},
                     {dtypes.front()},
                     {1},
                     one});
  for (const auto* model : {&small.dit, &small.linear})
    out.push_back({model->with_nan(), styles, {dtypes.front()}, {1}, one});
  return out;
}

std::vector<GradientCheck> checks_of(const Planned& planned, const VerifyConfig& config) {
  const auto seed = static_cast<uint64_t>(config.seed);
  std::vector<GradientCheck> out;
  for (const auto style : planned.styles) {
    const privacy::ClipOptions clip{.style = style,
                                    .norm_algorithm = config.norm_algorithm,
                                    .tile_size = config.tile_size,
                                    .workspace = Bytes{1024}};  // several blocks
    const auto& model = planned.model;
    out.push_back(
        {.label = model.label + (style == ClipStyle::flat ? "" : ", " + to_string(style)),
         .make_model = [model] { return model.make(); },
         .batch = [model, seed](const models::Model& made, DType dtype, int rank,
                                int64_t micro_step) { return batch_of(made, model, seed, {dtype, rank, micro_step}); },
         .methods = checked_methods(chosen(config.methods, catalog::private_methods()), clip),
         .strategies = planned.strategies,
         .dtypes = planned.dtypes,
         .micro_steps = planned.micro_steps,
         .clip = clip,
         .seed = seed,
         .verbose = config.verbose});
  }
  return out;
}

// Records and users, dealt by the loader to a method that takes any shape.
std::vector<StepCheck> step_checks(const VerifyConfig& config) {
  std::vector<StepCheck> out;
  if (!config.model.empty()) return out;
  const auto model = SmallModels(config.seq_length).classifier;
  const auto method = checked_methods(std::vector{privacy::MethodName::automatic}, {}).front();
  for (const auto dtype : chosen<DType>(config.dtypes, {DType::fp32, DType::bf16}))
    for (const bool users : {false, true})
      if (dtype != DType::fp64)  // optimizers are fp32
        out.push_back({.label = text("llama classify, loader", users ? ", users" : ""),
                       .make_model = [model] { return model.make(); },
                       .method = method,
                       .dtype = dtype,
                       .users = users,
                       .seed = static_cast<uint64_t>(config.seed)});
  return out;
}

}  // namespace

void VerifyConfig::declare_model(Fields& f) {
  f.add("model", model,
        {.help = "name of a model or folder with config.json; if not set, small models of every family",
         .flags = {"--model", "--model-name", "--model-name-or-path"}});
  f.add("task", task,
        {.help = "training task; auto: the usual one of the model", .flags = {"--task"}, .needs = {{"model.model"}}});
  f.add("lora_rank", lora_rank,
        {.help = "rank of LoRA adapters; 0: no adapters",
         .min = 0,
         .flags = {"--lora-rank", "--lora-r"},
         .needs = {{"model.model"}}});
}

void VerifyConfig::declare(Fields& f) {
  f.add("seq_length", seq_length,
        {.help = "sequence length of a sample", .unit = "tokens", .min = 2, .flags = {"--seq-length", "--seq"}});
  f.add("methods", methods,
        {.help = "clipping methods to check, comma-separated; if not set, all",
         .flags = {"--dp", "--mode", "--experiment"}});
  f.add("strategies", strategies,
        {.help = "sharding strategies to check, comma-separated; if not set, all that fit the number of ranks",
         .flags = {"--shard", "--data-parallel"}});
  f.add("dtypes", dtypes,
        {.help = "data types of computation to check, comma-separated; if not set, fp32, and bf16 with one strategy "
                 "(all of them with --all)",
         .flags = {"--dtype"}});
  f.add("max_records_per_user", max_records_per_user,
        {.help = "largest number of records per user, who is then clipped as one sample, with --model; 1: a record is "
                 "a sample; the small models are checked in both ways",
         .unit = "records",
         .min = 1,
         .flags = {"--max-records-per-user"},
         .needs = {{"model.model"}}});
  f.add("all", all,
        {.help = "whether to check every data type and accumulation on every model and strategy, and checkpointing",
         .flags = {"--all"}});
  f.add("verbose", verbose,
        {.help = "whether to print the norms of every sample on every rank: by layer, and in total before and after "
                 "any reduction",
         .flags = {"--verbose"}});
  f.add("enable_profiling", enable_profiling,
        {.help = "whether to print the time of each phase of the checked steps, on rank 0",
         .flags = {"--enable-profiling"}});
  f.add("clip_style", clip_styles,
        {.help = "clip styles to check, comma-separated; if not set, flat, and the others on some models",
         .flags = {"--clip-style"}});
  f.add("norm_algorithm", norm_algorithm,
        {.help = "norm algorithm of linear layers; auto: that of the method", .flags = {"--norm-algorithm"}});
  f.add("tile_size", tile_size,
        {.help = "tile size for Gram matrices", .unit = "positions", .min = 1, .flags = {"--tile-size"}});
  f.add("seed", seed, {.help = "seed of weights and data", .flags = {"--seed"}});
}

std::string left_out(const VerifyConfig& config) {
  if (!config.model.empty()) return "steps with the data loader are not checked with --model: they use a small model";
  const bool fp64 = std::find(config.dtypes.begin(), config.dtypes.end(), "fp64") != config.dtypes.end();
  return fp64 ? "steps with the data loader are not checked in fp64: optimizers are fp32" : "";
}

std::vector<VerifyRow> verify(comm::World& world, const VerifyConfig& config, const models::SizeOverrides& sizes,
                              const std::function<void(size_t done, size_t all)>& progress) {
  std::vector<GradientCheck> checks;
  size_t all = 0, done = 0;
  for (const auto& planned : plan(config, sizes, world.size()))
    for (auto& check : checks_of(planned, config)) {
      all += check.methods.size() * check.strategies.size() * check.dtypes.size() * check.micro_steps.size();
      checks.push_back(std::move(check));
    }
  const auto steps = step_checks(config);
  const auto strategies = chosen(config.strategies, catalog::strategies_for(world.size()));
  all += steps.size() * strategies.size();
  const auto row_done = [&] {
    if (progress && world.rank() == 0) progress(++done, all);
  };
  auto rows = check_gradients(world, checks, row_done);
  Meshes meshes("step");
  for (const auto& step : steps)
    for (const auto strategy : strategies) {
      shard::ShardConfig sharding;
      sharding.shard = strategy;
      rows.push_back(check_step(world, step, strategy, meshes.groups(world, sharding)));
      row_done();
    }
  // Every layer of ours has a plain form; one without would be judged by what it reports itself.
  for (auto& row : rows) row.pass = row.pass && row.reference == to_string(Source::autograd);
  return rows;
}

}  // namespace shade::proof
