#include "shade/train/deal.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/comm/partition.h"

namespace shade::train {
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
