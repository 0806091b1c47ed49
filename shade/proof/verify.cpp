#include "shade/proof/verify.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace shade::proof {
namespace {

using shard::Strategy;

std::unique_ptr<models::Model> make(const VerifyModel& model) {
  return models::make_model(model.name, model.sizes, model.options);
}

constexpr int64_t kMost = 3;  // samples of a micro-batch

// Unequal batches, an empty one among them; different data everywhere; texts of different lengths. Users have unequal
// numbers of records, and their blank rows hold what must not count.
nn::Batch batch_of(const models::Model& model, const VerifyModel& spec, nn::DType dtype, uint64_t seed, int rank,
                   int64_t micro_step) {
  static constexpr int64_t kSizes[] = {kMost, 1, 0, 2};
  const auto samples = kSizes[(rank + micro_step) % 4];
  const auto t = spec.seq_length, most = spec.max_records;
  auto batch = model.synthetic({.samples = 4 * most, .seq_length = t},
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
  return batch.rows(0, samples);
}

template <class Enum>
std::vector<Enum> chosen(const std::vector<std::string>& words, std::vector<Enum> otherwise) {
  if (words.empty()) return otherwise;
  std::vector<Enum> out;
  for (const auto& word : words) out.push_back(parse_name<Enum>(word));
  return out;
}

std::vector<Strategy> strategies(const VerifyConfig& config, int ranks) {
  return chosen(config.strategies, catalog::strategies_for(ranks));
}

std::vector<VerifyModel> models_of(const VerifyConfig& config, const models::SizeOverrides& sizes) {
  using models::Task;
  if (!config.model.empty()) {
    VerifyModel own{.label = config.model,
                    .name = config.model,
                    .sizes = sizes,
                    .seq_length = config.seq_length,
                    .max_records = config.max_records_per_user};
    own.options.task = config.task;
    if (config.lora_rank > 0) own.options.lora = nn::LoraOptions{.rank = config.lora_rank};
    return {own};
  }
  models::SizeOverrides odd;  // T, D and P all different
  odd.vocab_size = 71;
  std::vector<VerifyModel> out{{"llama classify", "llama-nano", odd, {.task = Task::classify}, config.seq_length},
                               {"llama lm, sum loss",
                                "llama-nano",
                                odd,
                                {.task = Task::lm, .loss_mean = models::LossMean::token},
                                config.seq_length},
                               {"qwen2 tied, mean loss", "qwen2-nano", odd, {.task = Task::lm}, config.seq_length},
                               {"dit", "dit-nano", {}, {.task = Task::denoise}, config.seq_length},
                               {"linear with bias", "linear-nano", {}, {.task = Task::regress}, config.seq_length},
                               {"llama LoRA", "llama-nano", odd, {.task = Task::classify}, config.seq_length}};
  out.back().options.lora = nn::LoraOptions{.rank = 3};
  // A family that was added to the registry and has no row here is verified as it comes.
  for (const auto& name : models::model_names()) {
    const bool known = std::any_of(out.begin(), out.end(), [&](const auto& model) { return model.name == name; });
    if (name.ends_with("-nano") && !known) out.push_back({name, name, {}, {}, config.seq_length});
  }
  for (const size_t i : {2u, 3u, 4u, 5u}) {  // with an added weight, biases, a tied table and adapters
    out.push_back(out[i]);
    out.back().label += ", users";
    out.back().max_records = 3;
  }
  if (config.all) {
    out.push_back(out[0]);
    out.back().label = "llama checkpointed";
    out.back().options.checkpointing = models::Checkpointing::block;
  }
  return out;
}

}  // namespace

void VerifyConfig::declare_model(Fields& f) {
  f.add("model", model,
        {.help = "a named model or a folder with config.json; empty: small ones of every family",
         .flags = {"--model", "--model-name", "--model-name-or-path"}});
  f.add("task", task, {.help = "what is trained", .flags = {"--task"}});
  f.add("lora_rank", lora_rank,
        {.help = "adapters of this rank; 0: none", .min = 0, .flags = {"--lora-rank", "--lora-r"}});
}

void VerifyConfig::declare(Fields& f) {
  f.add("seq_length", seq_length,
        {.help = "per sample", .unit = "tokens", .min = 2, .flags = {"--seq-length", "--seq"}});
  f.add("methods", methods,
        {.help = "some of the clipping methods; empty: all", .flags = {"--dp", "--mode", "--experiment"}});
  f.add("strategies", strategies,
        {.help = "some of the strategies; empty: all that fit the ranks", .flags = {"--shard", "--data-parallel"}});
  f.add("dtypes", dtypes, {.help = "of computation; empty: fp32, or all with --all", .flags = {"--dtype"}});
  f.add("max_records_per_user", max_records_per_user,
        {.help = "most records of a user, who is then clipped as one sample, with --model; 1: a record is a sample; "
                 "the small models are checked both ways",
         .unit = "records",
         .min = 1,
         .flags = {"--max-records-per-user"}});
  f.add("all", all, {.help = "every dtype, accumulation and checkpointing", .flags = {"--all"}});
  f.add("verbose", verbose,
        {.help = "print the norms of every sample on every rank: by layer, and in all before and after any reduction",
         .flags = {"--verbose"}});
  f.add("enable_profiling", enable_profiling,
        {.help = "print how long each phase of the checked steps took, on rank 0", .flags = {"--enable-profiling"}});
  f.add("clip_style", clip_style, {.help = "over what a sample's norm is taken", .flags = {"--clip-style"}});
  f.add("norm_algorithm", norm_algorithm,
        {.help = "of linear layers; auto: the method's", .flags = {"--norm-algorithm"}});
  f.add("tile_size", tile_size, {.help = "of Gram matrices", .unit = "positions", .min = 1, .flags = {"--tile-size"}});
  f.add("seed", seed, {.help = "of weights and data", .flags = {"--seed"}});
}

std::vector<VerifyRow> verify(comm::World& world, const VerifyConfig& config, const models::SizeOverrides& sizes,
                              const std::function<void(size_t done, size_t all)>& progress) {
  const auto seed = static_cast<uint64_t>(config.seed);
  const auto methods = chosen(config.methods, catalog::private_methods());
  const auto dtypes =
      chosen<nn::DType>(config.dtypes, config.all ? std::vector{nn::DType::fp32, nn::DType::fp64, nn::DType::bf16}
                                                  : std::vector{nn::DType::fp32});
  const auto models = models_of(config, sizes);
  const std::vector<int64_t> micro_steps = config.all ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1};
  const auto shards = strategies(config, world.size());
  const size_t all = models.size() * dtypes.size() * micro_steps.size() * shards.size() * methods.size();

  std::vector<GradientCheck> checks;
  for (const auto& model : models) {
    const privacy::ClipOptions clip{.style = config.clip_style,
                                    .norm_algorithm = config.norm_algorithm,
                                    .tile_size = config.tile_size,
                                    .workspace = Bytes{1024}};  // several blocks
    checks.push_back(
        {.label = model.label,
         .make_model = [m = &model] { return make(*m); },
         .batch = [m = &model, seed](const models::Model& made, nn::DType dtype, int rank,
                                     int64_t micro_step) { return batch_of(made, *m, dtype, seed, rank, micro_step); },
         .methods = checked_methods(methods, clip),
         .strategies = shards,
         .dtypes = dtypes,
         .micro_steps = micro_steps,
         .clip = clip,
         .seed = seed,
         .verbose = config.verbose});
  }
  size_t done = 0;
  return check_gradients(world, checks, [&] {
    if (progress) progress(++done, all);
  });
}

}  // namespace shade::proof
