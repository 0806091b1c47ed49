// shade bench, a whole training step: model x strategy x optimizer on made-up data.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "shade/base/terminal.h"
#include "shade/experiment/bench.h"
#include "shade/experiment/peer.h"
#include "shade/profile/phases.h"
#include "shade/profile/trace.h"
#include "shade/train/step.h"

namespace shade::experiment {
namespace {

// A few numbers of every rank, by rank.
std::vector<at::Tensor> exchanged(const comm::Group& group, const std::vector<double>& mine) {
  const auto count = static_cast<int64_t>(mine.size());
  auto all = at::empty({group.size() * count}, at::kDouble);
  group.all_gather(all, at::tensor(mine, at::kDouble), {.label = "results"}).wait();
  return all.view({group.size(), count}).unbind(0);
}

// PyTorch's word for it.
std::string peer_strategy(shard::Strategy strategy) {
  switch (strategy) {
    case shard::Strategy::ddp: return "ddp";
    case shard::Strategy::zero2: return "fsdp2_keep";
    case shard::Strategy::zero3: return "fsdp2_reshard";
    default: throw UsageError(text("--peers: there is no PyTorch peer for --shard ", to_string(strategy)));
  }
}

std::map<std::string, double> since(const std::map<std::string, Millis>& before,
                                    const std::map<std::string, Millis>& now) {
  std::map<std::string, double> out;
  for (const auto& [name, time] : now)
    out[name] = (time - (before.contains(name) ? before.at(name) : Millis(0))).count();
  return out;
}

// Memory of the rank that needed most.
void take_largest(BenchResult& result, const comm::Group& group) {
  const auto peak = profile::TensorMemory::peak_breakdown();
  std::vector<double> mine{static_cast<double>(peak.total.count),
                           static_cast<double>(profile::process_memory().peak_resident.count)};
  for (const auto kind : peak.kinds) mine.push_back(static_cast<double>(kind.count));
  for (const auto& rank : exchanged(group, mine)) {
    const auto at = [&](int64_t i) { return Bytes{static_cast<int64_t>(rank[i].item<double>())}; };
    result.resident_peak.count = std::max(result.resident_peak.count, at(1).count);
    if (at(0).count <= result.peak.count) continue;
    result.peak = result.at_peak.total = at(0);
    for (size_t k = 0; k < peak.kinds.size(); ++k) result.at_peak.kinds[k] = at(static_cast<int64_t>(k) + 2);
  }
}

}  // namespace

BenchResult measure_training(comm::World& world, const Experiment& experiment) {
  const auto& [config, sizes, shard, optim, dp] =
      std::tie(experiment.bench, experiment.sizes, experiment.shard, experiment.optim, experiment.dp);
  profile::TensorMemory::track();
  if (config.threads > 0)
    at::set_num_threads(static_cast<int>(config.threads));
  else if (world.size() > 1)
    at::set_num_threads(1);
  models::ModelOptions options{
      .task = config.task, .attention = config.attention, .checkpointing = config.checkpointing};
  if (config.lora_rank > 0) options.lora = nn::LoraOptions{.rank = config.lora_rank};
  const auto model = models::make_model(config.model, sizes, options);
  const models::BatchShape shape{config.batch_size * config.grad_accum, config.seq_length};

  BenchResult result;
  std::vector<nn::Batch> batches;
  {
    const MemoryScope scope(MemoryKind::data);
    const auto seed = static_cast<uint64_t>(config.seed + world.rank());  // everybody has other samples
    const auto begin = Clock::now();
    const auto all = model->synthetic(shape, seed, nn::scalar_type(config.dtype));
    result.data_ms = Millis(Clock::now() - begin).count();
    for (int64_t i = 0; i < config.grad_accum; ++i)
      batches.push_back(all.rows(i * config.batch_size, config.batch_size));
  }
  result.snapshots.push_back(memory_line("after data creation"));

  shard::Runtime runtime(model->parameters(), shard::connect_groups(world, shard::policy_of(shard, world.size())),
                         shard, {.compute = config.dtype});
  runtime.initialise(static_cast<uint64_t>(config.seed));
  const auto optimizer = optim::make_optimizer(optim);
  optimizer->prepare(train::slots_of(runtime.shards()),
                     [&](const std::string&, int64_t elements, const at::TensorOptions& wanted) {
                       return runtime.storage().zeros(elements, wanted.dtype().toScalarType(), MemoryKind::optimizer);
                     });
  runtime.updated();  // the gradients that prepare() looked at
  result.snapshots.push_back(memory_line("after model creation"));

  train::Step step(*model, runtime, *optimizer, optim::make_schedule(optim), {.grad_clip = optim.grad_clip, .dp = dp});
  result.describe(*model, log_key(experiment, world.size()));
  result.ranks = world.size();
  const int64_t samples = config.batch_size * config.grad_accum * world.size();
  result.length = model->tokens(shape);
  result.tokens = samples * result.length;
  result.flops = 3 * static_cast<double>(samples) * model->forward_flops(shape);

  const auto& control = runtime.groups().control;
  std::optional<Peer> peer;
  if (config.peers && world.rank() == 0) {
    auto words = peer_words(config, *model);
    words.insert(words.end(), {"--what", "step"});
    if (config.dtype == nn::DType::bf16) words.insert(words.end(), {"--dtype", "bf16_mixed"});  // fp32 masters, as ours
    if (world.size() > 1) words.insert(words.end(), {"--strategy", peer_strategy(shard.shard)});
    if (dp.is_private()) {  // Opacus has one method that doesn't keep each sample's gradient
      const bool sharded = world.size() > 1 && shard.shard != shard::Strategy::ddp;
      words.insert(words.end(), {"--dp", sharded ? "ghost_fsdp" : "ghost"});
    }
    peer = Peer::start({.arguments = words, .ranks = world.size()});
  }
  std::vector<double> mine;
  profile::Phases phases;
  std::optional<profile::Trace> trace;
  if (!config.trace.empty()) trace.emplace(profile::TraceOwner{world.rank(), world.size(), to_string(world.backend())});
  std::optional<Progress> progress;
  if (world.rank() == 0) progress.emplace("bench", config.warmup_iter + config.num_iter);
  for (int64_t i = 0; i < config.warmup_iter + config.num_iter; ++i) {
    if (i == config.warmup_iter) {
      result.snapshots.push_back(memory_line("after warmup"));
      const auto warmup = world.traffic().drain();
      if (trace) trace->collectives(warmup);
      profile::TensorMemory::restart_average();
      phases.restart();
    }
    control.barrier().wait();
    const auto phases_before = phases.by_name();
    const auto begin = Clock::now();
    const auto cpu = profile::process_cpu_time();
    const auto record = step.run(batches, static_cast<double>(samples));
    result.losses.push_back(record.loss);
    result.clipped = record.samples.clipped;
    result.not_finite = record.samples.not_finite;
    const auto end = Clock::now();
    if (trace) trace->step(i, begin, end);
    if (i >= config.warmup_iter) {
      const Seconds took = end - begin;
      mine.push_back(Millis(took).count());
      result.steps.push_back(
          {since(phases_before, phases.by_name()), profile::TensorMemory::peak(), profile::TensorMemory::current()});
      const double available = took.count() * at::get_num_threads() * static_cast<double>(config.num_iter);
      result.utilisation += (profile::process_cpu_time() - cpu).count() / available;
      if (peer) result.peer_times_ms.push_back(peer->step().count());  // the other ranks sleep in the next barrier
    }
    if (progress) progress->advance();
  }
  result.average = profile::TensorMemory::average();
  const auto steps = static_cast<double>(config.num_iter);
  for (const auto& step_figures : result.steps)
    for (const auto& [name, ms] : step_figures.phases_ms) result.phases_ms[name] += ms / steps;
  for (const auto& [weight, time] : phases.by_index("norm"))
    result.norms_ms[model->parameters().weights()[static_cast<size_t>(weight)].name()] = time.count() / steps;
  const auto traffic = world.traffic().drain();
  if (trace) {
    trace->collectives(traffic);
    trace->save(trace_file(config.trace, result.log_key, world.rank(), world.size()));
  }
  for (const auto& record : traffic) {
    if (record.kind == comm::Collective::barrier) continue;  // ours, between steps: not part of any
    result.wire.count += record.wire.count / config.num_iter;
    result.comm_ms += Millis(record.ended - record.started).count() / static_cast<double>(config.num_iter);
    result.exposed_ms += Millis(record.waited).count() / static_cast<double>(config.num_iter);
  }
  result.snapshots.push_back(memory_line("after training"));
  result.loss = result.losses.back();
  if (peer) result.peer_peak = peer->peak_bytes();
  take_largest(result, control);
  const auto times = exchanged(control, mine);
  for (size_t i = 0; i < mine.size(); ++i) {
    double slowest = 0;
    for (const auto& rank : times) slowest = std::max(slowest, rank[static_cast<int64_t>(i)].item<double>());
    result.times_ms.push_back(slowest);
  }
  return result;
}

}  // namespace shade::experiment
