#include "shade/proof/verify.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "shade/base/error.h"
#include "shade/train/job.h"

namespace shade::proof {
namespace {

using shard::Strategy;

// Weights that hide nothing: where a model begins at zero (adaLN, LoRA's B, biases) half of the gradients would be too.
at::Tensor value_of(const nn::Weight& weight, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed * 1000 + static_cast<uint64_t>(weight.id()));
  const bool constant = weight.init().kind == nn::Init::Kind::constant;
  const double spread = constant ? 0.1 : std::max(0.1, weight.init().value);
  return at::randn(weight.shape(), generator, at::kFloat).mul_(spread).add_(constant ? weight.init().value : 0);
}

std::unique_ptr<models::Model> make(const VerifyModel& model) {
  return model.own ? model.own() : models::make_model(model.name, model.sizes, model.options);
}

constexpr int64_t kMost = 3;  // samples of a micro-batch

// Unequal batches, an empty one among them; different data everywhere; texts of different lengths.
nn::Batch batch_of(const models::Model& model, const VerifyModel& spec, nn::DType dtype, uint64_t seed, int rank,
                   int64_t micro_step) {
  static constexpr int64_t kSizes[] = {kMost, 1, 0, 2};
  const auto samples = kSizes[(rank + micro_step) % 4];
  const auto t = spec.seq_length;
  auto batch = model.synthetic({.samples = 4, .seq_length = t},
                               seed * 100 + static_cast<uint64_t>(rank * 10 + micro_step), nn::scalar_type(dtype));
  if (batch.mask_BT.defined()) {
    batch.ids_BT.select(1, 1).copy_(batch.ids_BT.select(1, 0));  // a token twice in a sample
    const auto length = t - at::arange(4).remainder(std::max<int64_t>(1, t / 2));
    batch.mask_BT = (at::arange(t) < length.unsqueeze(1)).to(at::kLong);
    if (batch.labels.dim() == 2) batch.labels = batch.labels.masked_fill(batch.mask_BT == 0, -100);
  }
  return batch.rows(0, samples);
}

// The definition: each sample alone, its whole gradient, its norm, the clipped sum in fp64.
struct Reference {
  std::vector<std::vector<double>> norms;                              // by rank, in the order of its samples
  std::vector<std::map<nn::WeightId, std::vector<double>>> by_weight;  // squared, by rank
  std::map<nn::WeightId, at::Tensor> sum;
};

struct SampleGradient {
  int rank;
  std::map<nn::WeightId, at::Tensor> parts;
};

std::vector<SampleGradient> sample_gradients(const VerifyCase& c, uint64_t seed, int ranks) {
  const auto model = make(*c.model);
  for (auto& weight : model->parameters().weights()) weight.bind(value_of(weight, seed).to(nn::scalar_type(c.dtype)));
  nn::PlainGradients gradients(c.dtype == nn::DType::fp64 ? at::kDouble : at::kFloat);
  model->parameters().wiring.tap = &gradients;
  std::vector<SampleGradient> out;
  for (int rank = 0; rank < ranks; ++rank)
    for (int64_t m = 0; m < c.micro_steps; ++m) {
      const auto batch = batch_of(*model, *c.model, c.dtype, seed, rank, m);
      for (int64_t i = 0; i < batch.samples(); ++i) {
        gradients.free();
        torch::autograd::backward({model->losses(batch.rows(i, 1)).sum()}, {});
        out.push_back({rank, {}});
        for (const auto& weight : model->parameters().weights())
          if (weight.trainable()) out.back().parts[weight.id()] = gradients.of(weight).to(at::kDouble).clone();
      }
    }
  return out;
}

// Clipping by its definition, in another way than privacy/clip does it.
std::map<std::string, double> factors(const nn::Parameters& parameters, const SampleGradient& sample,
                                      const privacy::DpConfig& dp, at::ScalarType type) {
  const auto group = [&](const nn::Weight& weight) -> std::string {
    switch (dp.clip_style) {
      case privacy::ClipStyle::per_layer: return weight.name().substr(0, weight.name().rfind('.'));
      case privacy::ClipStyle::group: return std::to_string(weight.unit());
      default: return "";
    }
  };
  std::map<std::string, double> squares;
  for (const auto& weight : parameters.weights())
    if (weight.trainable()) squares[group(weight)] += sample.parts.at(weight.id()).square().sum().item<double>();
  const double threshold =
      dp.max_grad_norm * (1 - privacy::clip_margin(type)) / std::sqrt(static_cast<double>(squares.size()));
  std::map<std::string, double> out;
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    const double norm = std::sqrt(squares[group(weight)]);
    out[weight.name()] = dp.clip_style == privacy::ClipStyle::automatic ? threshold / (norm + dp.gamma)
                                                                        : (norm > threshold ? threshold / norm : 1.0);
  }
  return out;
}

Reference reference(const VerifyCase& c, const nn::Parameters& parameters, const std::vector<SampleGradient>& samples,
                    int ranks) {
  Reference out;
  out.norms.resize(static_cast<size_t>(ranks));
  out.by_weight.resize(static_cast<size_t>(ranks));
  for (const auto& sample : samples) {
    const auto factor = factors(parameters, sample, c.dp, nn::scalar_type(c.dtype));
    double square = 0;
    for (const auto& weight : parameters.weights()) {
      if (!weight.trainable()) continue;
      const auto& part = sample.parts.at(weight.id());
      const double mine = part.square().sum().item<double>();
      square += mine;
      out.by_weight[static_cast<size_t>(sample.rank)][weight.id()].push_back(mine);
      auto& sum = out.sum[weight.id()];
      const auto clipped = part * factor.at(weight.name());
      sum = sum.defined() ? sum + clipped : clipped;
    }
    out.norms[static_cast<size_t>(sample.rank)].push_back(std::sqrt(square));
  }
  return out;
}

// Half of the samples are clipped, half are not.
double middle_norm(std::vector<SampleGradient>& samples) {
  std::vector<double> norms;
  for (const auto& sample : samples) {
    double square = 0;
    for (const auto& [id, part] : sample.parts) square += part.square().sum().item<double>();
    norms.push_back(std::sqrt(square));
  }
  std::sort(norms.begin(), norms.end());
  return norms[norms.size() / 2] * 0.9;
}

struct Differences {
  double norm = 0, gradient = 0;
  bool noise_equal = true;
  std::vector<std::string> details{};
};

double relative(double found, double wanted) {
  return std::isfinite(found) ? std::abs(found - wanted) / std::max(std::abs(wanted), 1e-30)
                              : std::numeric_limits<double>::infinity();
}

Differences compare(comm::World& world, const VerifyCase& c, const Reference& wanted, const shard::Groups& groups,
                    uint64_t seed, bool verbose) {
  const auto model = make(*c.model);
  auto& parameters = model->parameters();
  const auto fill = [&](shard::Runtime& weights) {
    weights.fill([&](const nn::Weight& weight, int64_t begin, at::Tensor out) {
      out.copy_(value_of(weight, seed).view(-1).narrow(0, begin, out.numel()));
    });
  };
  train::Job job(world, {.model = model.get(),
                         .privacy = c.dp.event(),
                         .method = c.method,
                         .noise_seed = c.dp.seed(),
                         .shard = c.shard,
                         .dtype = c.dtype,
                         .micro_batch = kMost,
                         .weights = fill,
                         .groups = groups,
                         .rehearsal = true});
  auto& runtime = job.runtime();
  auto& method = job.stepper().method();
  method.record_norms(true);
  const int rank = world.rank();
  std::vector<nn::Batch> batches;
  for (int64_t m = 0; m < c.micro_steps; ++m) batches.push_back(batch_of(*model, *c.model, c.dtype, seed, rank, m));
  job.gradients(batches);

  Differences out;
  const auto& norms = wanted.norms[static_cast<size_t>(rank)];
  size_t at = 0;
  for (const auto& recorded : method.drain_norms()) {
    const auto squares = recorded.squares_B.contiguous();
    for (int64_t i = 0; i < squares.numel(); ++i, ++at) {
      const double norm = std::sqrt(squares[i].item<double>());
      out.norm = std::max(out.norm, at < norms.size() ? relative(norm, norms[at]) : INFINITY);
      if (!verbose) continue;
      for (const auto& weight : parameters.weights())
        if (weight.trainable()) {
          const double mine = std::sqrt(recorded.by_weight.at(weight.id())[i].item<double>());
          const double truth = std::sqrt(wanted.by_weight[static_cast<size_t>(rank)].at(weight.id())[at]);
          out.details.push_back(
              text("rank ", rank, " sample ", at, " ", weight.name(), " norm ", mine, " expected ", truth));
        }
    }
  }
  if (at != norms.size()) out.norm = INFINITY;

  double size = 0, whole = 0;
  for (const auto& [id, sum] : wanted.sum) size += sum.square().sum().item<double>();
  std::map<nn::WeightId, at::Tensor> clean;
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    clean[weight.id()] = runtime.whole(weight, shard::Runtime::Part::gradient);
    const auto& truth = wanted.sum.at(weight.id());
    const double gap = (clean[weight.id()].to(at::kDouble) - truth).norm().item<double>();
    whole += gap * gap;
    // Weight by weight; one whose true gradient is next to nothing is measured by the whole.
    const double scale = std::max(truth.norm().item<double>(), 1e-2 * std::sqrt(size));
    if (c.dtype != nn::DType::bf16) out.gradient = std::max(out.gradient, std::isfinite(gap) ? gap / scale : INFINITY);
  }
  // In bf16 a sample's products are rounded differently alone and in a batch: 1 to 2 % of a small weight's gradient.
  if (c.dtype == nn::DType::bf16) out.gradient = std::isfinite(whole) ? std::sqrt(whole / size) : INFINITY;
  // The noise, drawn shard by shard, is the noise of the whole weight.
  job.stepper().add_noise();
  const privacy::Noise noise(privacy::seeded_key(static_cast<uint64_t>(c.dp.noise_seed)));
  const double deviation = method.clipper()->gradient_sigma() * method.clipper()->sensitivity();
  for (const auto& weight : parameters.weights()) {
    if (!weight.trainable()) continue;
    auto expected = clean[weight.id()].view(-1);
    noise.add(expected, deviation, 0, weight.id(), 0);
    if (!runtime.whole(weight, shard::Runtime::Part::gradient).view(-1).equal(expected)) out.noise_equal = false;
  }
  return out;
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
  if (config.own_model)
    return {{.label = "own",
             .name = "",
             .sizes = {},
             .options = {},
             .seq_length = config.seq_length,
             .own = config.own_model}};
  if (!config.model.empty()) {
    VerifyModel own{.label = config.model, .name = config.model, .sizes = sizes, .seq_length = config.seq_length};
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
         .flags = {"--model", "--model-name"}});
  f.add("task", task, {.help = "what is trained", .flags = {"--task"}});
  f.add("lora_rank", lora_rank, {.help = "adapters of this rank; 0: none", .min = 0, .flags = {"--lora-rank"}});
}

void VerifyConfig::declare(Fields& f) {
  f.add("seq_length", seq_length, {.help = "per sample", .unit = "tokens", .min = 2, .flags = {"--seq-length"}});
  f.add("methods", methods, {.help = "some of the clipping methods; empty: all", .flags = {"--dp"}});
  f.add("strategies", strategies,
        {.help = "some of the strategies; empty: all that fit the ranks", .flags = {"--shard"}});
  f.add("dtypes", dtypes, {.help = "of computation; empty: fp32, or all with --all", .flags = {"--dtype"}});
  f.add("all", all, {.help = "every dtype, accumulation and checkpointing", .flags = {"--all"}});
  f.add("verbose", verbose, {.help = "every layer's norm of every sample, on every rank", .flags = {"--verbose"}});
  f.add("clip_style", clip_style, {.help = "over what a sample's norm is taken", .flags = {"--clip-style"}});
  f.add("norm_algorithm", norm_algorithm,
        {.help = "of linear layers; auto: the method's", .flags = {"--norm-algorithm"}});
  f.add("tile_size", tile_size, {.help = "of Gram matrices", .unit = "positions", .min = 1, .flags = {"--tile-size"}});
  f.add("seed", seed, {.help = "of weights and data", .flags = {"--seed"}});
}

double tolerance(nn::DType dtype) {
  switch (dtype) {
    case nn::DType::fp64: return 1e-10;
    case nn::DType::bf16: return 1e-2;
    case nn::DType::fp32: break;
  }
  return 1e-5;
}

Json VerifyRow::json() const {
  return {{"method", method},
          {"strategy", strategy},
          {"ranks", ranks},
          {"dtype", dtype},
          {"model", model},
          {"micro_steps", micro_steps},
          {"max_rel_norm", max_rel_norm},
          {"max_rel_grad", max_rel_grad},
          {"noise_equal", noise_equal},
          {"pass", pass}};
}

std::vector<VerifyRow> verify(comm::World& world, const VerifyConfig& config, const models::SizeOverrides& sizes,
                              const std::function<void(size_t done, size_t all)>& progress) {
  const auto seed = static_cast<uint64_t>(config.seed);
  auto methods = chosen(config.methods, catalog::private_methods());
  if (config.own_method) methods.resize(1);
  const auto dtypes =
      chosen<nn::DType>(config.dtypes, config.all ? std::vector{nn::DType::fp32, nn::DType::fp64, nn::DType::bf16}
                                                  : std::vector{nn::DType::fp32});
  const auto models = models_of(config, sizes);
  const std::vector<int64_t> micro_steps = config.all ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{1};
  const auto shards = strategies(config, world.size());
  const size_t all = models.size() * dtypes.size() * micro_steps.size() * shards.size() * methods.size();

  std::map<std::pair<int, int>, shard::Groups> meshes;
  std::vector<VerifyRow> rows;
  for (const auto& model : models)
    for (const auto dtype : dtypes)
      for (const auto steps : micro_steps) {
        VerifyCase c{.model = &model, .dtype = dtype, .micro_steps = steps};
        c.dp.clip_style = config.clip_style;
        c.dp.norm_algorithm = config.norm_algorithm;
        c.dp.tile_size = config.tile_size;
        c.dp.norm_workspace = Bytes{1024};  // several blocks
        c.dp.noise_seed = 11;
        auto samples = sample_gradients(c, seed, world.size());
        c.dp.max_grad_norm = middle_norm(samples);
        const auto truth = reference(c, make(model)->parameters(), samples, world.size());
        for (const auto strategy : shards) {
          c.shard.shard = strategy;
          c.shard.segment = KiB(16);  // several segments in a unit
          const auto policy = shard::policy_of(c.shard, world.size());
          const std::pair shape{policy.replicate, policy.shard};
          if (!meshes.contains(shape)) meshes[shape] = shard::connect_groups(world, policy);
          auto groups = meshes[shape];
          groups.policy = policy;
          for (const auto method : methods) {
            c.dp.dp = method;
            c.method = config.own_method ? config.own_method : privacy::method_of(c.dp);
            auto found = compare(world, c, truth, groups, seed, config.verbose);
            auto worst = at::empty({world.size() * 3}, at::kDouble);
            groups.control
                .all_gather(worst, at::tensor({found.norm, found.gradient, found.noise_equal ? 0.0 : 1.0}, at::kDouble),
                            {.label = "differences"})
                .wait();
            worst = std::get<0>(worst.view({world.size(), 3}).max(0));
            VerifyRow row{.method = config.own_method ? "own" : to_string(method),
                          .strategy = to_string(strategy),
                          .dtype = to_string(dtype),
                          .model = model.label,
                          .ranks = world.size(),
                          .micro_steps = steps,
                          .max_rel_norm = worst[0].item<double>(),
                          .max_rel_grad = worst[1].item<double>(),
                          .noise_equal = worst[2].item<double>() == 0,
                          .details = std::move(found.details)};
            row.pass = row.max_rel_norm <= tolerance(dtype) && row.max_rel_grad <= tolerance(dtype) && row.noise_equal;
            rows.push_back(std::move(row));
            if (world.rank() == 0 && progress) progress(rows.size(), all);
          }
        }
      }
  return rows;
}

}  // namespace shade::proof
