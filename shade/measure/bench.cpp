#include "shade/measure/bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <filesystem>
#include <numeric>
#include <optional>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/median.h"
#include "shade/base/span.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/catalog/methods.h"
#include "shade/hash/digest.h"
#include "shade/measure/peer.h"
#include "shade/models/flops.h"
#include "shade/nn/gradients.h"
#include "shade/profile/memory.h"
#include "shade/profile/trace.h"
#include "shade/shard/config.h"
#include "shade/train/feed/records.h"

namespace shade::measure {

void Experiment::declare(Config& config) {
  Fields fields("model", config.fields());
  model.declare_options(fields);
  fields.add("dtype", model.dtype, {.help = "data type of weights and computation", .flags = {"--dtype"}});
  config.add("model", sizes);
  Fields own("bench", config.fields());
  bench.declare(own, work);
  config.add("shard", shard);
  config.add("optim", optim);
  config.add("dp", dp);
  config.add("data", data);
  config.add("comm", comm);
}

void Experiment::state_options() {
  Config config;
  declare(config);
  options = json_values(config);
}

namespace {

// As in training: who asks for an epsilon or noise and names no method gets one, and a plain step clips its gradient.
void follow_training(Experiment& experiment, const Given& given) {
  const auto [bench, dp] = std::tie(experiment.bench, experiment.dp);
  // What a rank computes at a time; a recipe's batch_size is of all ranks together.
  const auto micro_batch = parse_integer(experiment.work.micro_batch);
  if (micro_batch && !given("bench.batch_size")) bench.batch_size = *micro_batch;
  train::set_schedule_length(experiment);
  if (!given("dp.dp") && !train::asks_for_privacy(experiment, given).empty()) dp.dp = privacy::MethodName::automatic;
  if (!dp.is_private() && !given("optim.grad_clip")) experiment.optim.grad_clip = dp.max_grad_norm;
}

}  // namespace

train::Decisions decide(Experiment& experiment, const Given& given, int ranks) {
  using train::Topic;
  auto& model = experiment.model;
  train::Decisions out;
  if (experiment.from_recipe) follow_training(experiment, given);
  model.use_folder();
  out.add(Topic::weights, models::describe_hub_name(model.model));
  out.add(Topic::strategy, shard::choose_strategy(experiment.shard, given, ranks));
  out.add(Topic::vocabulary, train::fit_vocabulary(experiment.sizes, model.model, experiment.data, model.options()));
  experiment.state_options();
  const auto word = given.word("dp.dp");
  const auto method = experiment.dp.dp;
  // A method that follows from other options wasn't named.
  const bool named = !word.empty() && parse_name<privacy::MethodName>(word) == method;
  experiment.mode = catalog::mode_of(named ? word : to_string(method));
  return out;
}

// Zero until measured: a result file has these keys, whatever was measured.
BenchResult::BenchResult() {
  for (auto* figure : {&utilisation, &sent_bytes, &comm_ms, &exposed_ms, &cpu_overhead_ms}) *figure = 0;
}

const RankMemory& BenchResult::largest() const {
  return *std::max_element(memory.begin(), memory.end(),
                           [](const auto& a, const auto& b) { return a.at_peak.total < b.at_peak.total; });
}

profile::MemoryBreakdown BenchResult::most() const {
  profile::MemoryBreakdown out;
  for (const auto& rank : memory) {
    out.total = std::max(out.total, rank.most.total);
    for (size_t kind = 0; kind < out.kinds.size(); ++kind)
      out.kinds[kind] = std::max(out.kinds[kind], rank.most.kinds[kind]);
  }
  return out;
}

void BenchResult::complete(const Experiment& experiment) {
  peak_mb = mib(largest().at_peak.total);
  average_mb = mib(largest().average);
  for (const auto& rank : memory) resident_mb = std::max(resident_mb.value_or(0), mib(rank.peak_resident));
  time_ms = median(times_ms);
  average_ms = std::accumulate(times_ms.begin(), times_ms.end(), 0.0) / static_cast<double>(times_ms.size());
  if (const auto samples = experiment.bench.batch_size * experiment.bench.grad_accum * ranks; records > 0)
    epoch_s = static_cast<double>((records + samples - 1) / samples) * time_ms / 1e3;
  tokens_per_second = static_cast<double>(tokens) * 1e3 / time_ms;
  overlapped_ms = std::max(0.0, *comm_ms - *exposed_ms);
  const double flops_per_second = flops_per_token * tokens_per_second;
  gflops = flops_per_second / 1e9;
  if (const double stated = experiment.work.peak_gflops * ranks; stated > 0) {
    stated_gflops = stated;
    mfu = flops_per_second / (1e9 * stated);
  }
  if (product_flops > 0) {
    gemm_gflops = product_flops * ranks / 1e9;
    gemm_share = flops_per_second / (product_flops * ranks);
  }
}

namespace {
double best_of(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

}  // namespace

std::vector<std::string> peer_words(const Experiment& experiment, const models::Model& model) {
  std::vector<std::string> words{"--batch",   std::to_string(experiment.bench.batch_size),
                                 "--dtype",   to_string(experiment.model.dtype),
                                 "--threads", std::to_string(at::get_num_threads())};
  const auto add = [&](const char* name, int64_t value) {
    words.emplace_back(name);
    words.push_back(std::to_string(value));
  };
  const auto json = parse_json(model.config_json());
  const auto number = [&](const char* key) { return json.at(key).get<int64_t>(); };
  if (const auto of_text = model.text_traits()) {
    const auto hidden = number("hidden_size");
    SHADE_REQUIRE(
        number("head_dim") == 64 && number("num_attention_heads") == 2 * number("num_key_value_heads") &&
            number("intermediate_size") == 3 * hidden && of_text->classifier,
        "--peers: the PyTorch peer has heads of 64, two query heads per key head, ffn 3 x hidden and task classify");
    add("--layers", number("num_hidden_layers"));
    add("--hidden", hidden);
    add("--seq", experiment.work.seq_length);
    add("--vocab", of_text->vocabulary);
    words.insert(words.end(), {"--model", "llama"});
  } else {
    SHADE_REQUIRE(model.image_traits(), "--peers: there is a PyTorch peer for llama and dit");
    add("--layers", number("depth"));
    add("--hidden", number("hidden_size"));
    add("--image-size", number("image_size"));
    add("--patch-size", number("patch_size"));
    words.insert(words.end(), {"--model", "dit"});
  }
  return words;
}

void BenchResult::describe(const Experiment& experiment, const models::Model& model, int world_size) {
  description = model.describe();
  model_name = models::model_title(experiment.model.model, experiment.sizes);
  log_key = measure::log_key(experiment, world_size);
  ranks = world_size;
  parameters = static_cast<double>(model.parameters().count());
  trainable = static_cast<double>(model.parameters().count_trainable());
  if (const auto of_text = model.text_traits()) vocabulary = of_text->vocabulary;
}

BenchResult measure_forward_backward(const Experiment& experiment) {
  const auto& [config, work, spec] = std::tie(experiment.bench, experiment.work, experiment.model);
  SHADE_REQUIRE(experiment.data.data_folder.empty(),
                "--work forward_backward measures synthetic data; drop --data-folder");
  SHADE_REQUIRE(!experiment.dp.is_private(), "--work forward_backward is the bare model; drop --dp, or measure a step");
  profile::TensorMemory::track();
  const auto model = models::make_model(spec.model, experiment.sizes, spec.options());
  const auto type = train::scalar_type(spec.dtype);
  nn::bind_all(model->parameters(), type, static_cast<uint64_t>(work.seed));
  const models::BatchShape shape{config.batch_size, work.seq_length};
  const auto batch = model->synthetic(shape, static_cast<uint64_t>(work.seed), type);
  std::optional<Peer> peer;
  if (config.peers) peer = Peer::start({.arguments = peer_words(experiment, *model)});

  BenchResult result;
  result.describe(experiment, *model, 1);
  result.length = model->tokens(shape);
  result.tokens = models::real_tokens(*model, batch).sum().item<int64_t>();
  result.flops_per_token = models::training_flops_per_token(*model, shape);
  nn::PlainGradients gradients;
  model->parameters().wiring.tap = &gradients;
  profile::TensorMemory::reset_peak();
  std::optional<profile::Trace> trace;
  if (!config.trace_place().empty()) trace.emplace();
  Progress progress("bench", config.warmup_iter + config.num_iter);
  for (int64_t i = 0; i < config.warmup_iter + config.num_iter; ++i) {
    const auto begin = Clock::now();
    at::Tensor losses;
    {
      const Span span(SpanName::forward);
      losses = model->losses(batch);
    }
    {
      const Span span(SpanName::backward);
      torch::autograd::backward({losses.mean()}, {});
    }
    const auto end = Clock::now();
    if (trace) trace->step(i, begin, end);
    const Millis took = end - begin;
    result.loss = losses.mean().item<double>();
    result.losses.push_back(result.loss);
    gradients.free();
    if (i >= config.warmup_iter) {
      result.times_ms.push_back(took.count());
      result.steps.push_back({{}, profile::TensorMemory::peak(), profile::TensorMemory::current()});
      if (peer) result.peer_times_ms.push_back(peer->step().count());
    }
    progress.advance();
  }
  if (trace) trace->save(trace_file(experiment, result.log_key, 0, 1), experiment.readers());
  result.memory.resize(1);
  add_peak(result.memory[0], at::kCPU);
  if (peer) result.peer_peak = peer->peak_bytes();
  result.complete(experiment);
  return result;
}

std::string log_key(const Experiment& experiment, int ranks) {
  const auto& [c, shard] = std::tie(experiment.bench, experiment.shard);
  const auto& model = experiment.model;
  std::string name = text(std::filesystem::path(model.model).filename().string(), "_", to_string(shard.shard), "_ranks",
                          ranks, "_batch", c.batch_size, "_", to_string(model.dtype));
  if (row_at(catalog::kStrategies, shard.shard).sharded)
    name += text("_", to_string(shard.wrap), "_", to_string(shard.backward_prefetch), shard.offload ? "_offload" : "");
  if (experiment.dp.is_private()) name += "_" + to_string(experiment.dp.dp);
  auto options = experiment.options;
  for (const auto* place : {"trace", "use_profiler", "tensorboard"})
    if (options.contains("bench")) options["bench"].erase(place);
  return text(name, "_", hash::to_hex(hash::digest_of(options.dump())).substr(0, 8));
}

std::string trace_file(const Experiment& experiment, const std::string& log_key, int rank, int ranks) {
  const auto wanted = experiment.bench.trace_place();
  if (!wanted.ends_with('/')) return ranks == 1 ? wanted : text(wanted, ".rank", rank);
  make_folder(wanted + log_key, experiment.readers());
  return text(wanted, log_key, "/rank", rank, ".pt.trace.json");
}

// Where its memory went: at the peak, at most, by rank, stage by stage.
void BenchResult::write_memory(Json& out) const {
  out["memory_by_rank"] = Json::array();
  if (peak_owner) out["peak_owner"] = peak_owner->json();
  if (timeline) out["timeline"] = timeline->json();
  out["snapshots"] = Json::array();
  for (int rank = 0; rank < std::ssize(memory); ++rank) {
    const auto& of_rank = memory[static_cast<size_t>(rank)];
    out["memory_by_rank"].push_back(rank_json(of_rank, rank));
    for (const auto& line : of_rank.stages) out["snapshots"].push_back(snapshot(line, rank, gpus > 0));
  }
}

void BenchResult::write_peer(Json& out, const Experiment& experiment) const {
  if (peer_times_ms.empty()) return;
  const auto& dp = experiment.dp;
  const PeerRow row{
      .work = text(description, ", T ", experiment.work.seq_length, ", ", to_string(experiment.model.dtype),
                   ranks > 1 ? ", " + to_string(experiment.shard.shard) : "",
                   dp.is_private() ? ", " + to_string(dp.dp) : ""),
      .ours = Millis(best_of(times_ms)),
      .peer = Millis(best_of(peer_times_ms)),
      .ours_peak = largest().at_peak.total,
      .peer_peak = peer_peak};
  out["rows"] = Json::array({row.json()});
  out["peer_times_ms"] = peer_times_ms;
}

Json BenchResult::json(const Experiment& experiment) const {
  const auto& [c, shard, dp] = std::tie(experiment.bench, experiment.shard, experiment.dp);
  Json out{{"mode", experiment.mode},
           {"experiment", row_at(catalog::kMethods, dp.dp).experiment_word()},
           {"model", without_folders(experiment.model.model)},
           {"shard", to_string(shard.shard)},
           {"dp", to_string(dp.dp)},
           {"clip_style", to_string(dp.clip.style)},
           {"seq_length", length},
           {"batch_size", c.batch_size},
           {"total_batch_size", c.batch_size * ranks * c.grad_accum},
           {"num_gpus", gpus},
           {"num_ranks", ranks},
           {"step", to_string(c.work)},
           {"loss", loss},
           {"peak_memory_gb", peak_mb / 1024},
           {"times_ms", times_ms}};
  catalog::write_figures(out, *this);
  out["losses"] = losses;
  out["log_key"] = log_key;
  if (tells_of_records(dp))
    for (const auto* key : {"loss", "losses"}) out.erase(key);
  else if (dp.is_private())
    out["not_private"] = {{"clipped_samples", clipped}, {"not_finite_samples", not_finite}};
  out["data"] = data;
  const auto amounts = [](const auto& of) { return catalog::Amounts(of.begin(), of.end()); };
  catalog::write_parts(out, {.breakdown_mb = by_kind(largest().at_peak),
                             .highest_mb = by_kind(most()),
                             .phases_ms = amounts(phases_ms),
                             .own_ms = amounts(own_ms),
                             .waits_ms = amounts(waits_ms),
                             .norms_ms = amounts(norms_ms)});
  out["communication"]["collectives"] = Json::array();
  for (const auto& sum : traffic)
    out["communication"]["collectives"].push_back({{"collective", sum.collective},
                                                   {"label", sum.label},
                                                   {"bytes", sum.wire.count},
                                                   {"time_ms", sum.time_ms},
                                                   {"exposed_ms", sum.exposed_ms}});
  write_memory(out);
  write_peer(out, experiment);
  out["config"] = without_folders(experiment.options);
  // Also under the names of the documents.
  out["config"].update({{"model_name", model_name},
                        {"vocab_size", vocabulary > 0 ? Json(vocabulary) : Json()},
                        {"learning_rate", experiment.optim.lr},
                        {"sigma", dp.sigma},
                        {"max_grad_norm", dp.max_grad_norm}});
  return out;
}

}  // namespace shade::measure
