#include "shade/train/micro_batch.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/profile/device.h"
#include "shade/profile/host_memory.h"

namespace shade::train {
namespace {

Bytes largest(const comm::Group& group, Bytes mine) {
  auto all = at::empty({group.size()}, at::kLong);
  group.all_gather(all, at::full({1}, mine.count, at::kLong), {.label = "peak memory"}).wait();
  return {all.max().item<int64_t>()};
}

}  // namespace

MicroBatchChoice choose_micro_batch(const comm::Group& group, int64_t most, const MemoryLimit& of_rank,
                                    const std::function<void(int64_t samples)>& attempt) {
  MicroBatchChoice out;
  const auto device = of_rank.device;
  const Bytes limit{-largest(group, {-of_rank.most.count}).count};  // the smallest of all ranks
  for (int64_t samples = 1;; samples = std::min(2 * samples, most)) {
    const auto tried = out.trials.size();
    if (tried >= 2) {  // memory grows in a straight line, or slower
      const auto& [last, before] = std::tie(out.trials[tried - 1], out.trials[tried - 2]);
      const auto slope =
          static_cast<double>(last.peak.count - before.peak.count) / static_cast<double>(last.samples - before.samples);
      if (static_cast<double>(last.peak.count) + slope * static_cast<double>(samples - last.samples) >
          static_cast<double>(limit.count))
        break;
    }
    profile::reset_peak_memory(device);
    attempt(samples);
    const auto peak = largest(group, profile::peak_memory(device));
    out.trials.push_back({samples, peak});
    if (peak > limit) {
      SHADE_REQUIRE(samples > 1, "one sample needs ", to_string(peak), " of tensors on a rank; the limit is ",
                    to_string(limit),
                    ": raise --memory-limit, shorten --seq-length, shard more (--shard zero3) or set "
                    "--checkpointing block");
      break;
    }
    out.samples = samples;
    if (samples >= most) break;
  }
  profile::reset_peak_memory(device);
  return out;
}

Bytes default_memory_limit(at::Device device, int local_ranks) {
  if (device.is_cpu()) return {profile::host_memory().available.count / 5 * 4 / local_ranks};
  return {(profile::available_memory(device) + profile::device_memory(device).allocated).count / 10 * 9};
}

}  // namespace shade::train
