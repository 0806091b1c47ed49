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
  for (const auto& [name, time] : own.waits) result.waits_ms[name] += time.count() / count;
  for (const auto& [weight, time] : phases.by_index(SpanName::norm))
    result.norms_ms[name_of(SpanName::norm, weight)] += time.count() / count;
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

// One measured run of training steps on this rank.
class Measurement {
 public:
  Measurement(comm::World& world, const Experiment& experiment, const StageListener& stage_reached);
  void step(int64_t i);
  BenchResult finish();

  int64_t steps() const { return config_.warmup_iter + config_.num_iter; }

 private:
  void reach(const char* stage);
  void begin_measuring();
  void measured(const train::StepRecord& record, Seconds took, Millis loading, Seconds cpu);

  comm::World& world_;
  const Experiment& experiment_;
  const BenchConfig& config_;
  const StageListener& stage_reached_;
  at::Device device_;
  bool follows_memory_;  // allocation by allocation, with what each is for
  std::unique_ptr<models::Model> model_;
  shard::Groups groups_;
  BenchResult result_;
  RankMemory memory_;
  std::optional<Feed> feed_;
  std::optional<train::Job> job_;
  std::optional<Peer> peer_;
  std::unique_ptr<profile::DeviceMeter> meter_;
  std::vector<double> mine_;  // times of this rank
  StepTimes last_{};
  std::vector<profile::MemoryPoint> course_;
  std::optional<profile::Phases> phases_;
  std::optional<profile::Trace> trace_;
};

std::unique_ptr<models::Model> counted_model(const Experiment& experiment, at::Device device) {
  if (!experiment.bench.bare) profile::TensorMemory::track();
  nn::use_device(device);
  return models::make_model(experiment.model.model, experiment.sizes, experiment.model.options());
}

Measurement::Measurement(comm::World& world, const Experiment& experiment, const StageListener& stage_reached)
    : world_(world),
      experiment_(experiment),
      config_(experiment.bench),
      stage_reached_(stage_reached),
      device_(world.device()),
      follows_memory_(!config_.bare && device_.is_cpu()),
      model_(counted_model(experiment, device_)),
      groups_(shard::connect_groups(world, shard::policy_of(experiment.shard, world.size()))) {
  result_.gpus = device_.is_cpu() ? 0 : world.size();
  feed_.emplace(experiment, *model_, world.place(), device_);
  result_.data = feed_->describe();
  result_.records = feed_->records();
  reach("after data creation");

  auto options = job_options(experiment, *model_, world.size());
  options.device = device_;
  options.groups = groups_;
  job_.emplace(world, std::move(options));
  profile::return_unused_heap();  // what only the beginning needed
  reach("after model creation");

  const models::BatchShape shape{config_.batch_size * config_.grad_accum, experiment.work.seq_length};
  result_.describe(experiment, *model_, world.size());
  result_.length = model_->tokens(shape);
  result_.flops_per_token = models::training_flops_per_token(*model_, shape);
  peer_ = start_peer(world, experiment, *model_);
  meter_ = profile::DeviceMeter::open(device_);
  if (!config_.bare) phases_.emplace(device_);
  if (!config_.trace_place().empty())
    trace_.emplace(profile::TraceOwner{world.rank(), world.size(), to_string(world.backend())});
}

void Measurement::reach(const char* stage) {
  add_stage(memory_, stage, device_);
  const auto by_rank = last_stage(groups_.control, memory_);
  if (stage_reached_ && world_.rank() == 0) stage_reached_(by_rank, !device_.is_cpu());
}

void Measurement::begin_measuring() {
  const auto warmup = world_.traffic().drain();
  if (trace_) trace_->collectives(warmup);
  reach("after warmup");
  world_.traffic().drain();  // what it has sent is of no step
  profile::TensorMemory::restart_average();
}

void Measurement::step(int64_t i) {
  if (i == config_.warmup_iter) begin_measuring();
  groups_.control.barrier().wait();
  if (phases_) phases_->restart();
  const bool ends = i + 1 == steps();
  if (ends && follows_memory_) profile::TensorMemory::record_course();
  last_.begin = Clock::now();
  const auto cpu = profile::process_cpu_time();
  const auto batches = feed_->next();
  const Millis loading = Clock::now() - last_.begin;
  const auto record = job_->step(batches);
  if (!device_.is_cpu()) at::accelerator::synchronizeDevice(device_.index());
  last_.end = Clock::now();
  result_.losses.push_back(record.loss);
  result_.clipped = record.samples.clipped;
  result_.not_finite = record.samples.not_finite;
  if (trace_) trace_->step(i, last_.begin, last_.end);
  if (i < config_.warmup_iter) return;
  if (ends && follows_memory_) course_ = profile::TensorMemory::take_course();
  measured(record, last_.end - last_.begin, loading, cpu);
}

void Measurement::measured(const train::StepRecord& record, Seconds took, Millis loading, Seconds cpu) {
  const auto count = static_cast<double>(config_.num_iter);
  mine_.push_back(Millis(took).count());
  result_.tokens += record.tokens;
  *result_.cpu_overhead_ms += loading.count() / count;
  const double busy = meter_ ? meter_->utilisation().value_or(0)
                             : (profile::process_cpu_time() - cpu).count() / (took.count() * at::get_num_threads());
  *result_.utilisation += busy / count;
  if (phases_)
    add_phases(
        result_, *phases_, took, config_.num_iter,
        [this](SpanName span, int64_t index) { return job_->name_of(span, index); },
        {.phases_ms = {}, .peak = profile::peak_memory(device_), .allocated = profile::allocated_memory(device_)});
  if (peer_) result_.peer_times_ms.push_back(peer_->step().count());  // the other ranks sleep in the next barrier
}

BenchResult Measurement::finish() {
  if (device_.is_cpu()) memory_.average = profile::TensorMemory::average();  // an accelerator's allocator has none
  const auto traffic = world_.traffic().drain();
  if (trace_) {
    trace_->collectives(traffic);
    trace_->save(trace_file(experiment_, result_.log_key, world_.rank(), world_.size()), experiment_.readers());
  }
  reach("after training");
  add_traffic(result_, traffic, config_.num_iter);
  if (phases_) {
    const NameOf name = [this](SpanName span, int64_t index) { return job_->name_of(span, index); };
    result_.timeline = timeline_of(last_, phases_->records(), traffic, course_, name);
    if (device_.is_cpu()) result_.peak_owner = job_->owner_of(profile::TensorMemory::peak_place());
  }
  result_.loss = result_.losses.back();
  result_.tokens /= config_.num_iter;
  if (peer_) result_.peer_peak = peer_->peak_bytes();
  add_peak(memory_, device_);
  result_.memory = gathered(groups_.control, memory_);
  if (!config_.bare)
    result_.product_flops = profile::peak_gemm_flops(train::scalar_type(experiment_.model.dtype), device_);
  const auto times = exchanged(groups_.control, mine_);
  for (size_t i = 0; i < mine_.size(); ++i) {
    double slowest = 0;
    for (const auto& rank : times) slowest = std::max(slowest, rank[static_cast<int64_t>(i)].item<double>());
    result_.times_ms.push_back(slowest);
  }
  result_.complete(experiment_);
  return std::move(result_);
}

}  // namespace

BenchResult measure_training(comm::World& world, const Experiment& experiment, const StageListener& stage_reached) {
  Measurement measurement(world, experiment, stage_reached);
  std::optional<Progress> progress;
  if (world.rank() == 0) progress.emplace("bench", measurement.steps());
  for (int64_t i = 0; i < measurement.steps(); ++i) {
    measurement.step(i);
    if (progress) progress->advance();
  }
  return measurement.finish();
}

}  // namespace shade::measure
