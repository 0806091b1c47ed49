#include "shade/plan/dry_run.h"

#include <ATen/ATen.h>

#include "shade/base/execution.h"
#include "shade/checkpoint/owned.h"
#include "shade/measure/experiment_job.h"
#include "shade/measure/feed.h"
#include "shade/models/flops.h"
#include "shade/plan/caching_allocator.h"
#include "shade/plan/meta_kernels.h"
#include "shade/plan/page_heap.h"
#include "shade/plan/recorder.h"
#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

// Rank 0 owns as much as any other; copies of a shard deal its pieces among themselves.
Bytes checkpoint_of(train::Job& job, int ranks) {
  int64_t bytes = 0;
  for (const auto& piece : checkpoint::owned_by(job.runtime(), job.optimizer()))
    bytes += static_cast<int64_t>(piece.values.nbytes());
  return Bytes{bytes * ranks / job.runtime().policy().replicate};
}

using Allocations = std::vector<profile::Allocation>;

// What the allocator has of the system at most: that of an accelerator, or the heap. The heap gives back what only the
// creation of the job needed, as in `shade train` and `shade bench`.
void add_allocator(StepRecord& record, Allocations creation, const Allocations& steps, const DryRunOptions& options) {
  if (!options.accelerator) {
    PageHeap heap;
    heap.replay(creation);
    heap.purge();
    heap.replay(steps);
    record.pages = heap.peak_resident();
    return;
  }
  creation.insert(creation.end(), steps.begin(), steps.end());
  record.reserved = peak_reserved(creation, options.capacity.value_or(*options.accelerator));
}

}  // namespace

StepRecord dry_run(const measure::Experiment& experiment, const DryRunOptions& options) {
  const auto& config = experiment.bench;
  SHADE_REQUIRE(config.work == measure::Work::step, "a plan is of whole steps; drop --work");
  SHADE_REQUIRE(experiment.data.data_folder.empty(),
                "a plan is made from sizes and reads no data; drop --data-folder, and state --seq-length");
  SHADE_REQUIRE(options.ranks > 0, "a world of ", options.ranks, " ranks; expected at least 1");
  profile::TensorMemory::track();
  profile::TensorMemory::track_meta();
  const MetaKernels kernels;
  const auto memory = std::make_shared<profile::MemoryBook>();
  memory->record_allocations();
  Execution execution{.memory = memory};
  if (options.accelerator) execution.accelerator_block = Bytes{options.accelerator->count / 64};
  if (options.patience.count() > 0)
    execution.deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(options.patience);
  const ExecutionScope scope(execution);
  auto world = comm::World::simulated(
      /*rank=*/0, options.ranks, {},
      options.accelerator ? comm::World::Counted::backend : comm::World::Counted::exchange);
  const at::Device device = at::kMeta;
  const auto model = models::make_model(experiment.model.model, experiment.sizes, experiment.model.options());
  measure::Feed feed(experiment, *model, world.place(), device);
  auto job_options = measure::job_options(experiment, *model, world.size());
  job_options.device = device;
  job_options.step.noise_seed = 0;  // nothing is drawn
  // An accelerator moves whole units (shard::segment_on); meta would stand for a CPU, which cuts them.
  if (options.accelerator && job_options.shard.segment.count == 0) job_options.shard.segment = GiB(1 << 20);
  train::Job job(world, std::move(job_options));
  auto creation = memory->take_allocations();
  StepRecord record{.ranks = options.ranks};
  {
    Recorder recorder(world, job.runtime(), execution, *memory);
    job.step(feed.next());
    recorder.restart();
    memory->record_course();
    job.step(feed.next());
    record.events = recorder.take();
    for (const auto& point : memory->take_course())
      record.course.push_back({recorder.event_at(point.at), point.memory});
  }
  record.state = memory->now();
  record.peak = memory->peak();
  record.most = memory->most();
  record.owner = job.owner_of(memory->place());
  add_allocator(record, std::move(creation), memory->take_allocations(), options);
  record.checkpoint = checkpoint_of(job, options.ranks);
  add_totals(record);
  const models::BatchShape shape{config.batch_size * config.grad_accum, experiment.work.seq_length};
  record.parameters = model->parameters().count();
  record.samples = shape.samples * options.ranks;
  record.tokens = record.samples * model->tokens(shape);
  record.model_flops = models::training_flops_per_token(*model, shape) * static_cast<double>(record.tokens) /
                       static_cast<double>(options.ranks);
  world.leave();
  return record;
}

}  // namespace shade::plan
