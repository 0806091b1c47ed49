#include "shade/train/feed/micro_batch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/catalog/remedies.h"
#include "shade/profile/device.h"
#include "shade/profile/host_memory.h"

namespace shade::train {
namespace {

constexpr int64_t kTelling = 16, kFar = 4;  // records that tell about more of them; times the limit

Bytes largest(const comm::Group& group, Bytes mine) {
  auto all = at::empty({group.size()}, at::kLong);
  group.all_gather(all, at::full({1}, mine.count, at::kLong), {.label = "peak memory"}).wait();
  return {all.max().item<int64_t>()};
}

// Bytes per sample, by the last two trials.
double slope_of(const std::vector<MicroBatchTrial>& trials) {
  const auto& last = trials.back();
  const auto& before = trials[trials.size() - 2];
  return static_cast<double>(last.peak.count - before.peak.count) / static_cast<double>(last.samples - before.samples);
}

// Memory grows in a straight line, or slower. Nothing before two trials.
Bytes foretold(const std::vector<MicroBatchTrial>& trials, int64_t samples) {
  if (trials.size() < 2) return {};
  const auto& last = trials.back();
  const auto needed =
      static_cast<double>(last.peak.count) + slope_of(trials) * static_cast<double>(samples - last.samples);
  return {static_cast<int64_t>(std::min(needed, 1e18))};
}

// Samples that fit, if the last trial fits and more of them were predicted not to: memory grows with them.
int64_t fitting(const std::vector<MicroBatchTrial>& trials, Bytes limit) {
  const auto& last = trials.back();
  if (last.peak > limit) return last.samples / 2;
  return last.samples + static_cast<int64_t>(static_cast<double>(limit.count - last.peak.count) / slope_of(trials));
}

// The smallest of all ranks.
Bytes common_limit(const comm::Group& group, Bytes mine) { return {-largest(group, {-mine.count}).count}; }

MicroBatchTrial trial_of(const comm::Group& group, at::Device device, int64_t samples,
                         const std::function<void(int64_t)>& attempt) {
  profile::reset_peak_memory(device);
  attempt(samples);
  return {samples, largest(group, profile::peak_memory(device))};
}

}  // namespace

MicroBatchChoice choose_micro_batch(const comm::Group& group, int64_t most, const MemoryLimit& of_rank,
                                    const std::function<void(int64_t samples)>& attempt) {
  MicroBatchChoice out;
  const auto device = of_rank.device;
  const auto limit = common_limit(group, of_rank.most);
  for (int64_t samples = 1;; samples = std::min(2 * samples, most)) {
    if (foretold(out.trials, samples) > limit) break;
    const auto peak = out.trials.emplace_back(trial_of(group, device, samples, attempt)).peak;
    if (peak > limit) {
      SHADE_REQUIRE(samples > 1, "one sample needs ", to_string(peak), " of tensors on a rank; the limit is ",
                    to_string(limit), ": shard more (--shard zero3), ", catalog::kLessPerSample);
      break;
    }
    out.samples = samples;
    if (samples >= most) break;
  }
  profile::reset_peak_memory(device);
  return out;
}

void require_records_fit(const comm::Group& group, int64_t records, const MemoryLimit& of_rank,
                         const std::function<void(int64_t records)>& attempt) {
  const auto limit = common_limit(group, of_rank.most);
  std::vector<MicroBatchTrial> trials;
  for (int64_t some = 1, next = 1;; some = next) {
    next = some > records / 2 ? records : 2 * some;
    const auto peak = trials.emplace_back(trial_of(group, of_rank.device, some, attempt)).peak;
    // Far above the limit: what grows more slowly than a straight line doesn't make up for it.
    const bool absurd = some >= kTelling && foretold(trials, records).count / kFar > limit.count;
    SHADE_REQUIRE(peak <= limit && (some == records || (!absurd && foretold(trials, next) <= limit)), "one user with ",
                  records, " records needs more than ", to_string(limit), " of tensors, the limit of a rank; about ",
                  fitting(trials, limit), " fit: lower --max-records-per-user, ", catalog::kLessPerSample);
    if (some == records) break;
  }
  profile::reset_peak_memory(of_rank.device);
}

Bytes default_memory_limit(at::Device device, int local_ranks) {
  if (device.is_cpu()) return {profile::host_memory().available.count / 5 * 4 / local_ranks};
  return {(profile::available_memory(device) + profile::device_memory(device).allocated).count / 10 * 9};
}

}  // namespace shade::train
