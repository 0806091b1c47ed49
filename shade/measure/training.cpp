// shade bench, a whole training step: model x strategy x optimizer on synthetic data.
#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>

#include "shade/base/terminal.h"
#include "shade/measure/bench.h"
#include "shade/measure/exchanged.h"
#include "shade/measure/experiment_job.h"
#include "shade/measure/feed.h"
#include "shade/measure/peer.h"
#include "shade/measure/timeline.h"
#include "shade/models/flops.h"
#include "shade/profile/device.h"
#include "shade/profile/host_memory.h"
#include "shade/profile/own_times.h"
#include "shade/profile/peak_flops.h"
#include "shade/profile/phases.h"
#include "shade/profile/trace.h"
#include "shade/train/step/job.h"

namespace shade::measure {
namespace {

// PyTorch's word for it.
std::string peer_strategy(shard::Strategy strategy) {
  const auto word = row_at(catalog::kStrategies, strategy).peer;
  SHADE_REQUIRE(!word.empty(), "--peers: there is no PyTorch peer for --shard ", to_string(strategy));
  return std::string(word);
}

// On rank 0, if wanted.
std::optional<Peer> start_peer(const comm::World& world, const Experiment& experiment, const models::Model& model) {
  const auto& [config, shard, dp] = std::tie(experiment.bench, experiment.shard, experiment.dp);
  if (!config.peers || world.rank() != 0) return std::nullopt;
  auto words = peer_words(experiment, model);
  words.insert(words.end(), {"--what", "step"});
  if (experiment.model.dtype == train::ComputeType::bf16)
    words.insert(words.end(), {"--dtype", "bf16_mixed"});  // fp32 masters, as ours
  if (world.size() > 1) words.insert(words.end(), {"--strategy", peer_strategy(shard.shard)});
  if (world.device().is_cuda()) words.insert(words.end(), {"--device", "cuda"});
  if (dp.is_private()) {  // Opacus has one method that doesn't keep each sample's gradient
    const bool sharded = world.size() > 1 && row_at(catalog::kStrategies, shard.shard).sharded;
    words.insert(words.end(), {"--dp", sharded ? "ghost_fsdp" : "ghost"});
  }
  return Peer::start({.arguments = words, .ranks = world.size()});
}

// Of the step just made. Units are part of forward and backward, and on the timeline.
void add_phases(BenchResult& result, const profile::Phases& phases, Millis step, int64_t steps, const NameOf& name_of,
                StepFigures figures) {
  const auto count = static_cast<double>(steps);
  for (const auto& [name, time] : phases.by_name()) {
    if (name.starts_with("unit_")) continue;
    figures.phases_ms[name] = time.count();
    result.phases_ms[name] += time.count() / count;
  }
  const auto own = profile::own_times(phases.records());
  auto other = step;
  for (const auto& [name, time] : own.phases) {
    result.own_ms[name] += time.count() / count;
    other -= time;
  }
  result.own_ms["other"] += std::max(0.0, other.count()) / count;
  for (const auto& [name, time] : own.waits) result.waits_ms[name.empty() ? "other" : name] += time.count() / count;
  for (const auto& [weight, time] : phases.by_index("norm"))
    result.norms_ms[name_of("norm", weight)] += time.count() / count;
  result.steps.push_back(std::move(figures));
}

// Of the measured steps, for one.
void add_traffic(BenchResult& result, std::span<const comm::TrafficRecord> records, int64_t steps) {
  std::map<std::pair<std::string, std::string>, TrafficSum> sums;
  const auto count = static_cast<double>(steps);
  for (const auto& record : records) {
    if (record.kind == comm::Collective::barrier) continue;  // ours, between steps: not part of any
    const double time_ms = Millis(record.ended - record.started).count() / count;
    const double exposed_ms = Millis(record.waited).count() / count;
    *result.sent_bytes += static_cast<double>(record.wire.count / steps);
    *result.comm_ms += time_ms;
    *result.exposed_ms += exposed_ms;
    auto& sum = sums[{to_string(record.kind), record.label}];
    sum.wire.count += record.wire.count / steps;
    sum.time_ms += time_ms;
    sum.exposed_ms += exposed_ms;
  }
  for (auto& [key, sum] : sums) {
    std::tie(sum.collective, sum.label) = key;
    result.traffic.push_back(std::move(sum));
  }
}

}  // namespace

BenchResult measure_training(comm::World& world, const Experiment& experiment, const StageListener& stage_reached) {
  const auto& [config, spec, shard] = std::tie(experiment.bench, experiment.model, experiment.shard);
  if (!config.bare) profile::TensorMemory::track();
  const auto device = world.device();
  nn::use_device(device);
  const bool follows_memory = !config.bare && device.is_cpu();  // allocation by allocation, with what each is for
  const auto type = train::scalar_type(spec.dtype);
  const auto model = models::make_model(spec.model, experiment.sizes, spec.options());
  const auto groups = shard::connect_groups(world, shard::policy_of(shard, world.size()));
  const auto& control = groups.control;
  const models::BatchShape shape{config.batch_size * config.grad_accum, experiment.work.seq_length};

  BenchResult result;
  result.gpus = device.is_cpu() ? 0 : world.size();
  Feed feed(experiment, *model, world.place(), device);
  result.data = feed.describe();
  result.records = feed.records();
  RankMemory memory;
  const auto reach = [&](const char* stage) {
    add_stage(memory, stage, device);
    const auto by_rank = last_stage(control, memory);
    if (stage_reached && world.rank() == 0) stage_reached(by_rank, !device.is_cpu());
  };
  reach("after data creation");

  auto job_options = measure::job_options(experiment, *model, world.size());
  job_options.device = device;
  job_options.groups = groups;
  train::Job job(world, std::move(job_options));
  auto& runtime = job.runtime();
  profile::return_unused_heap();  // what only the beginning needed
  reach("after model creation");

  result.describe(experiment, *model, world.size());
  result.length = model->tokens(shape);
  result.flops_per_token = models::training_flops_per_token(*model, shape);
  const NameOf name_of = [&](const char* span, int64_t index) -> std::string {
    if (index < 0) return "";
    const std::string_view of = span;
    if (of == "norm" || of == "sample_gradients")
      return model->parameters().weights()[static_cast<size_t>(index)].name();
    if (of.starts_with("unit") || of == "gather_wait" || of == "reduce_wait")
      return runtime.units()[static_cast<size_t>(index)]->layout().name;
    return "";
  };

  auto peer = start_peer(world, experiment, *model);
  const auto meter = profile::DeviceMeter::open(device);
  std::vector<double> mine;
  StepTimes last{};
  std::vector<profile::MemoryPoint> course;
  std::optional<profile::Phases> phases;
  if (!config.bare) phases.emplace(device);
  std::optional<profile::Trace> trace;
  if (!config.trace_place().empty())
    trace.emplace(profile::TraceOwner{world.rank(), world.size(), to_string(world.backend())});
  std::optional<Progress> progress;
  if (world.rank() == 0) progress.emplace("bench", config.warmup_iter + config.num_iter);
  for (int64_t i = 0; i < config.warmup_iter + config.num_iter; ++i) {
    const bool measured = i >= config.warmup_iter, ends = i + 1 == config.warmup_iter + config.num_iter;
    if (i == config.warmup_iter) {
      const auto warmup = world.traffic().drain();
      if (trace) trace->collectives(warmup);
      reach("after warmup");
      world.traffic().drain();  // what it has sent is of no step
      profile::TensorMemory::restart_average();
    }
    control.barrier().wait();
    if (phases) phases->restart();
    if (ends && follows_memory) profile::TensorMemory::record_course();
    last.begin = Clock::now();
    const auto cpu = profile::process_cpu_time();
    const auto batches = feed.next();
    const Millis loading = Clock::now() - last.begin;
    const auto record = job.step(batches);
    if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
    last.end = Clock::now();
    result.losses.push_back(record.loss);
    result.clipped = record.samples.clipped;
    result.not_finite = record.samples.not_finite;
    if (trace) trace->step(i, last.begin, last.end);
    if (measured) {
      const Seconds took = last.end - last.begin;
      mine.push_back(Millis(took).count());
      result.tokens += record.tokens;
      *result.cpu_overhead_ms += loading.count() / static_cast<double>(config.num_iter);
      const double busy = meter ? meter->utilisation().value_or(0)
                                : (profile::process_cpu_time() - cpu).count() / (took.count() * at::get_num_threads());
      *result.utilisation += busy / static_cast<double>(config.num_iter);
      if (ends && follows_memory) course = profile::TensorMemory::take_course();
      if (phases)
        add_phases(
            result, *phases, took, config.num_iter, name_of,
            {.phases_ms = {}, .peak = profile::peak_memory(device), .allocated = profile::allocated_memory(device)});
      if (peer) result.peer_times_ms.push_back(peer->step().count());  // the other ranks sleep in the next barrier
    }
    if (progress) progress->advance();
  }
  if (device.is_cpu()) memory.average = profile::TensorMemory::average();  // an accelerator's allocator has none
  const auto traffic = world.traffic().drain();
  if (trace) {
    trace->collectives(traffic);
    trace->save(trace_file(experiment, result.log_key, world.rank(), world.size()), experiment.readers());
  }
  reach("after training");
  add_traffic(result, traffic, config.num_iter);
  if (phases) {
    result.timeline = timeline_of(last, phases->records(), traffic, course, name_of);
    if (device.is_cpu()) result.peak_owner = json_of(profile::TensorMemory::peak_place(), name_of);
  }
  result.loss = result.losses.back();
  result.tokens /= config.num_iter;
  if (peer) result.peer_peak = peer->peak_bytes();
  add_peak(memory, device);
  result.memory = gathered(control, memory);
  if (!config.bare) result.product_flops = profile::peak_gemm_flops(type, device);
  const auto times = exchanged(control, mine);
  for (size_t i = 0; i < mine.size(); ++i) {
    double slowest = 0;
    for (const auto& rank : times) slowest = std::max(slowest, rank[static_cast<int64_t>(i)].item<double>());
    result.times_ms.push_back(slowest);
  }
  result.complete(experiment);
  return result;
}

}  // namespace shade::measure
