#include "shade/measure/bench.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/version.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>
#include <thread>

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/base/terminal.h"
#include "shade/measure/mib.h"
#include "shade/measure/peer.h"
#include "shade/models/flops.h"
#include "shade/nn/gradients.h"
#include "shade/profile/heap.h"
#include "shade/profile/memory.h"
#include "shade/profile/trace.h"
#include "shade/train/setup.h"

namespace shade::measure {

models::ModelOptions BenchConfig::options() const {
  models::ModelOptions out{.task = task, .attention = attention, .checkpointing = checkpointing};
  if (lora_rank > 0) out.lora = nn::LoraOptions{.rank = lora_rank};
  return out;
}

void BenchConfig::declare(Fields& f) {
  f.add("model", model, {.help = "a named model or a folder with config.json", .flags = {"--model", "--model-name"}});
  f.add("task", task, {.help = "what is trained", .flags = {"--task"}});
  f.add("attention", attention, {.help = "kernel", .flags = {"--attention"}});
  f.add("checkpointing", checkpointing, {.help = "recompute activations in backward", .flags = {"--checkpointing"}});
  f.add("dtype", dtype, {.help = "of weights and computation", .flags = {"--dtype"}});
  f.add("seq_length", seq_length,
        {.help = "per sample", .unit = "tokens", .min = 1, .flags = {"--seq-length", "--max-length"}});
  f.add("batch_size", batch_size,
        {.help = "per rank", .unit = "samples", .min = 1, .flags = {"--batch-size", "--batch-sizes"}});
  f.add("work", work, {.help = "what is measured", .flags = {"--work"}});
  f.add("grad_accum", grad_accum,
        {.help = "micro-batches of batch_size in a step",
         .min = 1,
         .flags = {"--grad-accum", "--grad-accum-steps", "--gradient-accumulation-steps"}});
  f.add("num_iter", num_iter, {.help = "measured steps", .min = 1, .flags = {"--num-iter", "--num-steps"}});
  f.add("warmup_iter", warmup_iter, {.help = "steps before measuring", .min = 0, .flags = {"--warmup-iter"}});
  f.add("threads", threads,
        {.help = "compute threads; 0: libtorch's choice", .min = 0, .max = 4096, .flags = {"--threads"}});
  f.add("seed", seed, {.help = "of weights and data", .flags = {"--seed"}});
  f.add("lora_rank", lora_rank,
        {.help = "adapters of this rank on q_proj and v_proj, the rest frozen; 0: none",
         .min = 0,
         .flags = {"--lora-rank"}});
  f.add("peak_gflops", peak_gflops,
        {.help = "stated peak of the hardware of a rank, which mfu is a share of; 0: unknown, and no mfu is reported",
         .unit = "GFLOP/s",
         .min = 0,
         .flags = {"--peak-gflops"}});
  f.add("trace", trace,
        {.help = "write a Chrome trace of the whole run here, for Perfetto; a name that ends in / is a folder for "
                 "TensorBoard, with one below it for this configuration",
         .flags = {"--trace"}});
  f.add("use_profiler", use_profiler,
        {.help = "the same as --trace traces/, as PyTorch's scripts call it", .flags = {"--use-profiler"}});
  f.add(
      "tensorboard", tensorboard,
      {.help = "write time, loss, memory and phases of each measured step as TensorBoard's scalars, in a folder below "
               "this one for this configuration",
       .flags = {"--tensorboard"}});
  f.add("bare", bare,
        {.help = "times only: nothing counts memory, phases or the course of a step. Shows what measuring costs",
         .flags = {"--bare"}});
  f.add("peers", peers,
        {.help = "measure eager PyTorch beside, in turns (llama with heads of 64 and ffn 3 d, dit)",
         .flags = {"--peers"}});
}

void Experiment::declare(Config& config) {
  config.add("bench", bench);
  config.add("size", sizes);
  config.add("shard", shard);
  config.add("optim", optim);
  config.add("privacy", dp);
  config.add("data", data);
}

double BenchResult::average_ms() const {
  return std::accumulate(times_ms.begin(), times_ms.end(), 0.0) / static_cast<double>(times_ms.size());
}

namespace {
double best_of(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

}  // namespace

std::vector<std::string> peer_words(const BenchConfig& c, const models::Model& model) {
  std::vector<std::string> words{"--batch",   std::to_string(c.batch_size),         "--dtype", to_string(c.dtype),
                                 "--threads", std::to_string(at::get_num_threads())};
  const auto add = [&](const char* name, int64_t value) {
    words.emplace_back(name);
    words.push_back(std::to_string(value));
  };
  const auto json = model.config_json();
  const auto number = [&](const char* key) { return json.at(key).get<int64_t>(); };
  if (const auto of_text = model.text_traits()) {
    const auto hidden = number("hidden_size");
    SHADE_REQUIRE(
        number("head_dim") == 64 && number("num_attention_heads") == 2 * number("num_key_value_heads") &&
            number("intermediate_size") == 3 * hidden && of_text->classifier,
        "--peers: the PyTorch peer has heads of 64, two query heads per key head, ffn 3 x hidden and task classify");
    add("--layers", number("num_hidden_layers"));
    add("--hidden", hidden);
    add("--seq", c.seq_length);
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

void BenchResult::describe(const models::Model& model, const std::string& key) {
  description = model.describe();
  log_key = key;
  parameters = model.parameters().count();
  trainable = model.parameters().count_trainable();
  if (const auto of_text = model.text_traits()) vocabulary = of_text->vocabulary;
}

BenchResult measure_forward_backward(const Experiment& experiment) {
  const auto& [config, sizes] = std::tie(experiment.bench, experiment.sizes);
  SHADE_REQUIRE(experiment.data.data_folder.empty(), "--work forward_backward is on made-up data; drop --data-folder");
  SHADE_REQUIRE(!experiment.dp.is_private(), "--work forward_backward is the bare model; drop --dp, or measure a step");
  profile::TensorMemory::track();
  train::use_threads(config.threads, {});
  const auto model = models::make_model(config.model, sizes, config.options());
  const auto type = train::scalar_type(config.dtype);
  nn::bind_all(model->parameters(), type, static_cast<uint64_t>(config.seed));
  const models::BatchShape shape{config.batch_size, config.seq_length};
  const auto batch = model->synthetic(shape, static_cast<uint64_t>(config.seed), type);
  std::optional<Peer> peer;
  if (config.peers) peer = Peer::start({.arguments = peer_words(config, *model)});

  BenchResult result;
  result.describe(*model, log_key(experiment, 1));
  result.length = model->tokens(shape);
  result.tokens = models::real_tokens(*model, batch);
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
      const Span span("forward");
      losses = model->losses(batch);
    }
    {
      const Span span("backward");
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
  result.peak = profile::TensorMemory::peak();
  result.at_peak = profile::TensorMemory::peak_breakdown();
  result.resident_peak = profile::process_memory().peak_resident;
  if (peer) result.peer_peak = peer->peak_bytes();
  return result;
}

MemoryLine memory_line(std::string stage) {
  const auto process = profile::process_memory();
  return {.stage = std::move(stage),
          .tensors = profile::TensorMemory::breakdown(),
          .peak = profile::TensorMemory::peak(),
          .reserved = profile::heap_reserved(),
          .resident = process.resident,
          .peak_resident = process.peak_resident};
}

std::string log_key(const Experiment& experiment, int ranks) {
  const auto& [c, shard] = std::tie(experiment.bench, experiment.shard);
  std::string name = text(std::filesystem::path(c.model).filename().string(), "_", to_string(shard.shard), "_ranks",
                          ranks, "_batch", c.batch_size, "_", to_string(c.dtype));
  if (shard.shard != shard::Strategy::none && shard.shard != shard::Strategy::ddp)
    name += text("_", to_string(shard.wrap), "_", to_string(shard.backward_prefetch), shard.offload ? "_offload" : "");
  if (experiment.dp.is_private()) name += "_" + to_string(experiment.dp.dp);
  return name;
}

std::string trace_file(const Experiment& experiment, const std::string& log_key, int rank, int ranks) {
  const auto wanted = experiment.bench.trace_place();
  if (!wanted.ends_with('/')) return ranks == 1 ? wanted : text(wanted, ".rank", rank);
  make_folder(wanted + log_key, experiment.readers());
  return text(wanted, log_key, "/rank", rank, ".pt.trace.json");
}

namespace {

Json by_kind(const profile::MemoryBreakdown& memory) {
  Json out = Json::object();
  for (const auto& [name, kind] : names_of(MemoryKind{})) out[std::string(name)] = mib(memory.of(kind));
  return out;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

// What the documents call it.
std::string mode_of(const privacy::DpConfig& dp, const shard::ShardConfig& shard) {
  using privacy::MethodName;
  if (!dp.is_private()) return "no_dp";
  const bool two_pass = dp.dp == MethodName::ghost || dp.dp == MethodName::flash;
  return to_string(dp.dp) + (two_pass && shard.shard == shard::Strategy::zero3 ? "_fsdp" : "");
}
std::string experiment_of(const privacy::DpConfig& dp) {
  using privacy::MethodName;
  if (!dp.is_private()) return "vanilla";
  if (dp.dp == MethodName::flash) return "flash_clip";
  return dp.dp == MethodName::flash_bookkeeping ? "flash_clip_bookkeeping" : to_string(dp.dp);
}

Json json_of(const MemoryLine& line, const std::string& key) {
  Json out{{"stage", line.stage},
           {"rank", 0},
           {"log_key", key},
           {"allocated_mb", mib(line.tensors.total)},
           {"max_allocated_mb", mib(line.peak)},
           {"reserved_mb", mib(line.reserved)},
           {"rss_mb", mib(line.resident)},
           {"max_rss_mb", mib(line.peak_resident)}};
  out.update(by_kind(line.tensors));
  return out;
}

}  // namespace

Json BenchResult::json(const Experiment& experiment, const Json& whole_config) const {
  const auto& [c, shard, dp] = std::tie(experiment.bench, experiment.shard, experiment.dp);
  const double tokens_per_second = static_cast<double>(tokens) * 1e3 / average_ms();
  const double flops_per_second = flops_per_token * tokens_per_second;
  Json out{{"mode", mode_of(dp, shard)},
           {"experiment", experiment_of(dp)},
           {"model", c.model},
           {"shard", to_string(shard.shard)},
           {"dp", to_string(dp.dp)},
           {"clip_style", to_string(dp.clip_style)},
           {"seq_length", length},
           {"batch_size", c.batch_size},
           {"total_batch_size", c.batch_size * ranks * c.grad_accum},
           {"num_gpus", gpus},
           {"num_ranks", ranks},
           {"parameters", parameters},
           {"trainable_parameters", trainable},
           {"step", to_string(c.work)},
           {"loss", loss},
           {"peak_memory_mb", mib(peak)},
           {"peak_memory_gb", mib(peak) / 1024},
           {"peak_resident_mb", mib(resident_peak)},
           {"avg_time_ms", average_ms()},
           {"times_ms", times_ms},
           {"tokens_per_second", tokens_per_second},
           {"gflops_per_second", flops_per_second / 1e9}};
  out["losses"] = losses;
  out["average_memory_mb"] = mib(average);
  out["log_key"] = log_key;
  if (dp.is_private()) out["not_private"] = {{"clipped_samples", clipped}, {"not_finite_samples", not_finite}};
  out["utilisation"] = utilisation;
  out["cpu_overhead_ms"] = data_ms;
  out["data"] = data;
  out["phases_ms"] = phases_ms;
  if (!norms_ms.empty()) out["norms_ms"] = norms_ms;
  out["communication"] = {{"bytes", wire.count},
                          {"time_ms", comm_ms},
                          {"exposed_ms", exposed_ms},
                          {"overlapped_ms", std::max(0.0, comm_ms - exposed_ms)},
                          {"collectives", Json::array()}};
  for (const auto& sum : traffic)
    out["communication"]["collectives"].push_back({{"collective", sum.collective},
                                                   {"label", sum.label},
                                                   {"bytes", sum.wire.count},
                                                   {"time_ms", sum.time_ms},
                                                   {"exposed_ms", sum.exposed_ms}});
  if (c.peak_gflops > 0) {
    out["stated_gflops_per_second"] = c.peak_gflops * ranks;
    out["mfu"] = flops_per_second / (1e9 * c.peak_gflops * ranks);
  }
  if (product_flops > 0) {
    out["gemm_gflops_per_second"] = product_flops * ranks / 1e9;
    out["gemm_share"] = flops_per_second / (product_flops * ranks);
  }
  out["breakdown"] = by_kind(at_peak);
  if (!peak_owner.is_null()) out["peak_owner"] = peak_owner;
  if (!timeline.is_null()) out["timeline"] = timeline;
  out["snapshots"] = Json::array();
  for (const auto& line : snapshots) out["snapshots"].push_back(json_of(line, log_key));
  if (!peer_times_ms.empty()) {
    const PeerRow row{
        .work = text(description, ", T ", c.seq_length, ", ", to_string(c.dtype),
                     ranks > 1 ? ", " + to_string(shard.shard) : "", dp.is_private() ? ", " + to_string(dp.dp) : ""),
        .ours = Millis(best_of(times_ms)),
        .peer = Millis(best_of(peer_times_ms)),
        .ours_peak = peak,
        .peer_peak = peer_peak};
    out["rows"] = Json::array({row.json()});
    out["peer_times_ms"] = peer_times_ms;
  }
  out["config"] = whole_config;
  // Under the names of the documents, beside ours.
  out["config"].update({{"model_name", c.model},
                        {"vocab_size", vocabulary > 0 ? Json(vocabulary) : Json()},
                        {"learning_rate", experiment.optim.lr},
                        {"sigma", dp.sigma},
                        {"max_grad_norm", dp.max_grad_norm}});
  out["environment"] = {{"libtorch", TORCH_VERSION},
                        {"threads", at::get_num_threads()},
                        {"cpu", cpu_name()},
                        {"cores", std::thread::hardware_concurrency()}};
  return out;
}

}  // namespace shade::measure
