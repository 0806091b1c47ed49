#include "shade/proof/verify.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "shade/proof/check_step.h"
#include "shade/proof/meshes.h"
#include "shade/proof/reference.h"

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

VerifyModel named_model(const Verification& run) {
  VerifyModel own{.label = run.model.model,
                  .name = run.model.model,
                  .sizes = run.sizes,
                  .seq_length = run.work.seq_length,
                  .max_records = run.budget.max_records_per_user};
  own.options.task = run.model.task;
  if (run.model.lora_rank > 0) own.options.lora = nn::LoraOptions{.rank = run.model.lora_rank};
  return own;
}

// What is not asked for by name is tried on some models with one strategy: the whole product takes an hour.
std::vector<Planned> plan(const Verification& run, int ranks) {
  const auto styles = chosen<ClipStyle>(run.verify.clip_styles, {ClipStyle::flat});
  const auto dtypes =
      chosen<DType>(run.verify.dtypes,
                    run.verify.all ? std::vector{DType::fp32, DType::fp64, DType::bf16} : std::vector{DType::fp32});
  const auto strategies = chosen(run.verify.strategies, catalog::strategies_for(ranks));
  const std::vector<int64_t> micro_steps = run.verify.all ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1};
  if (!run.model.model.empty()) return {{named_model(run), styles, dtypes, micro_steps, strategies}};

  const SmallModels small(run.work.seq_length);
  const std::vector one{strategies.back()};
  std::vector<Planned> out;
  for (const auto& model : small.all()) out.push_back({model, styles, dtypes, micro_steps, strategies});
  if (run.verify.all) {
    auto checkpointed = small.classifier;
    checkpointed.label = "llama checkpointed";
    checkpointed.options.checkpointing = models::Checkpointing::block;
    out.push_back({checkpointed, styles, dtypes, micro_steps, strategies});
  } else {
    if (run.verify.dtypes.empty())
      for (const auto& model : small.all()) out.push_back({model, styles, {DType::bf16}, {1}, one});
    out.push_back({small.tied, styles, {dtypes.front()}, {3}, one});
  }
  if (run.verify.clip_styles.empty())
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

std::vector<GradientCheck> checks_of(const Planned& planned, const Verification& run) {
  const auto seed = static_cast<uint64_t>(run.work.seed);
  std::vector<GradientCheck> out;
  for (const auto style : planned.styles) {
    const privacy::ClipOptions clip{.style = style,
                                    .norm_algorithm = run.dp.clip.norm_algorithm,
                                    .tile_size = run.dp.clip.tile_size,
                                    .workspace = Bytes{1024}};  // several blocks
    const auto& model = planned.model;
    out.push_back(
        {.label = model.label + (style == ClipStyle::flat ? "" : ", " + to_string(style)),
         .make_model = [model] { return model.make(); },
         .batch = [model, seed](const models::Model& made, DType dtype, int rank,
                                int64_t micro_step) { return batch_of(made, model, seed, {dtype, rank, micro_step}); },
         .methods = checked_methods(chosen(run.verify.methods, catalog::private_methods()), clip),
         .strategies = planned.strategies,
         .dtypes = planned.dtypes,
         .micro_steps = planned.micro_steps,
         .clip = clip,
         .seed = seed,
         .verbose = run.verify.verbose});
  }
  return out;
}

// Records and users, dealt by the loader to a method that takes any shape.
std::vector<StepCheck> step_checks(const Verification& run) {
  std::vector<StepCheck> out;
  if (!run.model.model.empty()) return out;
  const auto model = SmallModels(run.work.seq_length).classifier;
  const auto method = checked_methods(std::vector{privacy::MethodName::automatic}, {}).front();
  for (const auto dtype : chosen<DType>(run.verify.dtypes, {DType::fp32, DType::bf16}))
    for (const bool users : {false, true})
      if (dtype != DType::fp64)  // optimizers are fp32
        out.push_back({.label = text("llama classify, loader", users ? ", users" : ""),
                       .make_model = [model] { return model.make(); },
                       .method = method,
                       .dtype = dtype,
                       .users = users,
                       .seed = static_cast<uint64_t>(run.work.seed)});
  return out;
}

}  // namespace

Verification::Verification(VerifyConfig checks) : verify(std::move(checks)) {
  model.model.clear();
  work.seq_length = 7;
  work.seed = 1;
  budget.max_records_per_user = 1;
  dp.clip.tile_size = 4;  // small: several tiles in a short text
}

void Verification::declare(Config& config) {
  Fields of_model("model", config.fields());
  declare_model(of_model);
  config.add("model", sizes);
  Fields own("verify", config.fields());
  declare_checks(own);
  config.add("comm", comm);
}

void Verification::declare_model(Fields& f) {
  f.add("model", model.model,
        {.help = "name of a model or folder with config.json; if not set, small models of every family",
         .flags = {"--model", "--model-name", "--model-name-or-path"}});
  f.add("task", model.task,
        {.help = "training task; auto: the usual one of the model", .flags = {"--task"}, .needs = {{"model.model"}}});
  f.add("lora_rank", model.lora_rank,
        {.help = "rank of LoRA adapters; 0: no adapters",
         .min = 0,
         .flags = {"--lora-rank", "--lora-r"},
         .needs = {{"model.model"}}});
}

void Verification::declare_checks(Fields& f) {
  f.add("seq_length", work.seq_length,
        {.help = "sequence length of a sample", .unit = "tokens", .min = 2, .flags = {"--seq-length", "--seq"}});
  f.add("methods", verify.methods,
        {.help = "clipping methods to check, comma-separated; if not set, all",
         .flags = {"--dp", "--mode", "--experiment"}});
  f.add("strategies", verify.strategies,
        {.help = "sharding strategies to check, comma-separated; if not set, all that fit the number of ranks",
         .flags = {"--shard", "--data-parallel"}});
  f.add("dtypes", verify.dtypes,
        {.help = "data types of computation to check, comma-separated; if not set, fp32, and bf16 with one strategy "
                 "(all of them with --all)",
         .flags = {"--dtype"}});
  f.add("max_records_per_user", budget.max_records_per_user,
        {.help = "largest number of records per user, who is then clipped as one sample, with --model; 1: a record is "
                 "a sample; the small models are checked in both ways",
         .unit = "records",
         .min = 1,
         .flags = {"--max-records-per-user"},
         .needs = {{"model.model"}}});
  f.add("all", verify.all,
        {.help = "whether to check every data type and accumulation on every model and strategy, and checkpointing",
         .flags = {"--all"}});
  f.add("verbose", verify.verbose,
        {.help = "whether to print the norms of every sample on every rank: by layer, and in total before and after "
                 "any reduction",
         .flags = {"--verbose"}});
  f.add("enable_profiling", verify.enable_profiling,
        {.help = "whether to print the time of each phase of the checked steps, on rank 0",
         .flags = {"--enable-profiling"}});
  f.add("clip_style", verify.clip_styles,
        {.help = "clip styles to check, comma-separated; if not set, flat, and the others on some models",
         .flags = {"--clip-style"}});
  f.add("norm_algorithm", dp.clip.norm_algorithm,
        {.help = "norm algorithm of linear layers; auto: that of the method", .flags = {"--norm-algorithm"}});
  f.add("tile_size", dp.clip.tile_size,
        {.help = "tile size for Gram matrices", .unit = "positions", .min = 1, .flags = {"--tile-size"}});
  f.add("seed", work.seed, {.help = "seed of weights and data", .flags = {"--seed"}});
}

std::string left_out(const Verification& run) {
  if (!run.model.model.empty())
    return "steps with the data loader are not checked with --model: they use a small model";
  const bool fp64 = std::find(run.verify.dtypes.begin(), run.verify.dtypes.end(), "fp64") != run.verify.dtypes.end();
  return fp64 ? "steps with the data loader are not checked in fp64: optimizers are fp32" : "";
}

std::vector<VerifyRow> verify(comm::World& world, const Verification& run,
                              const std::function<void(size_t done, size_t all)>& progress) {
  std::vector<GradientCheck> checks;
  size_t all = 0, done = 0;
  for (const auto& planned : plan(run, world.size()))
    for (auto& check : checks_of(planned, run)) {
      all += check.methods.size() * check.strategies.size() * check.dtypes.size() * check.micro_steps.size();
      checks.push_back(std::move(check));
    }
  const auto steps = step_checks(run);
  const auto strategies = chosen(run.verify.strategies, catalog::strategies_for(world.size()));
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
