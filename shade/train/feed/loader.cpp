#include "shade/train/feed/loader.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/memory_scope.h"
#include "shade/comm/partition.h"
#include "shade/nn/sample_rows.h"
#include "shade/train/budget/budget.h"

namespace shade::train {

std::unique_ptr<data::Sampler> Loader::sampler(const privacy::NoiseKey& key) const {
  return make_sampler(options_.event, options_.split.training(options_.event.unit), options_.batch_size, key);
}

std::string Loader::describe() const {
  return text(sampler({})->describe(),
              draws_users() ? text(", at most ", options_.max_records_per_user, " records each") : "");
}

std::vector<int64_t> Loader::records_of(int64_t user, int64_t step) const {
  const auto key = privacy::derived_key(options_.key(step), "shade records");
  return options_.split.users()->draw(user, options_.max_records_per_user, key.bytes(), step);
}

std::vector<MicroBatch> Loader::dealt(std::vector<int64_t> drawn, int64_t step) const {
  const Share share{options_.ranks, options_.rank};
  if (!draws_users()) {
    for (auto& record : drawn) record = options_.split.training_record(record);
    return deal(*data_, drawn, options_.shapes, share);
  }
  std::vector<Sample> samples;
  for (const auto user : drawn) {
    const auto records = records_of(user, step);
    Sample sample{user, {.rows = std::ssize(records)}};
    for (const auto record : records)
      if (options_.shapes.vary()) sample.shape.length = std::max(sample.shape.length, data_->length_of(record));
    samples.push_back(sample);
  }
  return deal(std::move(samples), options_.shapes, share);
}

nn::Batch Loader::batch_of(const MicroBatch& micro, int64_t step) const {
  return options_.shapes.vary() ? data_->padded_batch(micro.records, micro.shape.length)
                                : data_->batch_at(micro.records, static_cast<uint64_t>(step));
}

nn::Batch Loader::batch_of_users(const MicroBatch& micro, int64_t step) const {
  MicroBatch all{.shape = micro.shape};
  std::vector<int64_t> counts;
  for (const auto user : micro.records) {
    const auto records = records_of(user, step);
    all.records.insert(all.records.end(), records.begin(), records.end());
    counts.push_back(std::ssize(records));
  }
  return nn::in_samples(batch_of(all, step), counts, micro.shape.rows);
}

Loader::Loaded Loader::load(int64_t step) const {
  const MemoryScope scope(MemoryKind::data);
  nn::use_device(options_.device);  // this may be a thread that reads ahead
  const auto begin = Clock::now();
  const auto drawn = sampler(options_.key(step))->draw(step);
  Loaded out{.samples = static_cast<int64_t>(drawn.size())};
  for (const auto& micro : dealt(drawn, step)) {
    auto batch = draws_users() ? batch_of_users(micro, step) : batch_of(micro, step);
    batch.records = micro.records;
    out.micro_batches.push_back(batch.to(options_.device));
  }
  out.took = Clock::now() - begin;
  return out;
}

Loader::Loaded Loader::take(int64_t step, int64_t end) {
  auto out = ahead_ == step && next_.valid() ? next_.get() : load(step);
  ahead_ = step + 1;
  if (ahead_ < end) next_ = std::async(std::launch::async, [this, next = ahead_] { return load(next); });
  return out;
}

namespace {

// What a micro-step costs beside its positions, in positions: operators that are started, weights that are read and, if
// they are sharded, gathered.
constexpr int64_t kMicroStep = 256;

// Neighbours in the sorted order that are computed in the same micro-batches.
struct Run {
  SampleShape shape;
  int64_t samples = 0;
};

// Samples of all ranks in one micro-step.
int64_t step_samples(const SampleShape& shape, const MicroShapes& shapes, int ranks) {
  const auto samples = shapes.samples(shape);
  SHADE_REQUIRE(samples > 0, "a micro-batch of ", samples, " samples; expected at least 1");
  return samples * ranks;
}

std::vector<Run> runs_of(const std::vector<Sample>& sorted) {
  std::vector<Run> out;
  for (const auto& sample : sorted) {
    if (out.empty() || out.back().shape != sample.shape) out.push_back({sample.shape});
    ++out.back().samples;
  }
  return out;
}

// The cheapest way to pad neighbours to the longest of them: O(D^2) for D lengths.
std::vector<Run> merged(const std::vector<Run>& runs, const MicroShapes& shapes, int ranks) {
  struct Best {
    int64_t cost = 0;  // of all runs from here on
    Run first;
    size_t next = 0;
  };
  std::vector<Best> best(runs.size() + 1);
  for (auto begin = runs.size(); begin-- > 0;) {
    best[begin].cost = std::numeric_limits<int64_t>::max();
    Run run{runs[begin].shape};
    const auto at_a_time = step_samples(run.shape, shapes, ranks);
    for (auto end = begin; end < runs.size() && runs[end].shape.rows == run.shape.rows; ++end) {
      run.samples += runs[end].samples;
      const auto micro_steps = (run.samples + at_a_time - 1) / at_a_time;
      const auto cost = comm::slice_length(run.samples, ranks) * run.shape.positions() + micro_steps * kMicroStep +
                        best[end + 1].cost;
      if (cost < best[begin].cost) best[begin] = {cost, run, end + 1};
    }
  }
  std::vector<Run> out;
  for (size_t at = 0; at < runs.size(); at = best[at].next) out.push_back(best[at].first);
  return out;
}

}  // namespace

std::vector<MicroBatch> deal(std::vector<Sample> samples, const MicroShapes& shapes, const Share& of) {
  for (auto& sample : samples) sample.shape = shapes.padded(sample.shape);
  std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.shape > b.shape; });
  auto runs = runs_of(samples);
  if (shapes.vary() && !shapes.grid()) runs = merged(runs, shapes, of.ranks);
  std::vector<MicroBatch> out;
  auto next = samples.begin();
  for (const auto& run : runs) {
    const auto at_a_time = step_samples(run.shape, shapes, of.ranks);
    for (int64_t begin = 0; begin < run.samples; begin += at_a_time) {
      const auto all = std::min(at_a_time, run.samples - begin);
      const auto mine = comm::slice_of(all, of.ranks, of.rank);
      auto& micro = out.emplace_back(MicroBatch{{}, run.shape});
      for (auto i = mine.begin; i < mine.end(); ++i) micro.records.push_back(next[i].record);
      next += all;
    }
  }
  if (out.empty()) out.push_back({{}, shapes.padded({1, 1})});
  return out;
}

std::vector<MicroBatch> deal(const data::Dataset& data, std::span<const int64_t> records, const MicroShapes& shapes,
                             const Share& of) {
  std::vector<Sample> samples;
  for (const auto record : records)
    samples.push_back({record, shapes.vary() ? SampleShape{1, data.length_of(record)} : SampleShape{}});
  return deal(std::move(samples), shapes, of);
}

}  // namespace shade::train
