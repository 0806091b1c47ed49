#include "shade/plan/peak_remedy.h"

#include <algorithm>
#include <cmath>

namespace shade::plan {
namespace {

using catalog::MethodName;
using catalog::Strategy;

struct Case {
  const StepRecord& record;
  const measure::Experiment& experiment;

  bool sharded() const { return row_at(catalog::kStrategies, experiment.shard.shard).sharded; }
  bool method_is(std::initializer_list<MethodName> names) const {
    return std::find(names.begin(), names.end(), experiment.dp.dp) != names.end();
  }
};

// In the order in which they are suggested.
struct Remedy {
  MemoryKind kind;
  const char* words;
  bool (*left)(const Case& at);  // it is not in use
};

bool can_shard(const Case& at) { return at.record.ranks > 1 && !at.sharded(); }
bool can_offload(const Case& at) { return !at.experiment.shard.offload; }
bool can_checkpoint(const Case& at) { return at.experiment.model.checkpointing == models::Checkpointing::none; }
bool can_split(const Case& at) { return at.experiment.bench.batch_size > 1; }
bool is_wide(const Case& at) { return at.experiment.model.dtype == train::ComputeType::fp32; }
bool always(const Case&) { return true; }

const Remedy kRemedies[] = {
    {MemoryKind::parameters, "--shard zero3", can_shard},
    {MemoryKind::parameters, "more --ranks", [](const Case& at) { return at.sharded(); }},
    {MemoryKind::parameters, "--offload", can_offload},
    {MemoryKind::gathered, "--shard zero3",
     [](const Case& at) { return at.record.ranks > 1 && at.experiment.shard.shard != Strategy::zero3; }},
    {MemoryKind::gathered, "--wrap module",
     [](const Case& at) { return at.experiment.shard.wrap != shard::Wrap::module; }},
    {MemoryKind::gathered, "--dtype bf16", is_wide},
    {MemoryKind::gathered, "--backward-prefetch none --forward-prefetch false",
     [](const Case& at) { return at.experiment.shard.backward_prefetch != shard::Prefetch::none; }},
    {MemoryKind::gradients, "--shard zero3", can_shard},
    {MemoryKind::gradients, "--in-flight 0",
     [](const Case& at) { return at.sharded() && at.experiment.shard.in_flight.count > 0; }},
    {MemoryKind::gradients, "--lora-rank 16", [](const Case& at) { return at.experiment.model.lora_rank == 0; }},
    {MemoryKind::optimizer, "--shard zero3", can_shard},
    {MemoryKind::optimizer, "--offload", can_offload},
    {MemoryKind::optimizer, "--lora-rank 16", [](const Case& at) { return at.experiment.model.lora_rank == 0; }},
    {MemoryKind::activations, "--checkpointing block", can_checkpoint},
    {MemoryKind::activations, "a smaller --batch-size", can_split},
    {MemoryKind::activations, "a shorter --seq-length", always},
    {MemoryKind::kept, "--dp flash",
     [](const Case& at) {
       return at.method_is({MethodName::bookkeeping, MethodName::flash_bookkeeping, MethodName::automatic});
     }},
    {MemoryKind::kept, "a smaller --batch-size", can_split},
    {MemoryKind::norms, "--dp auto", [](const Case& at) { return !at.method_is({MethodName::automatic}); }},
    {MemoryKind::norms, "a smaller --batch-size", can_split},
    {MemoryKind::gram, "--norm-algorithm input_length",
     [](const Case& at) { return at.experiment.dp.clip.norm_algorithm != privacy::NormAlgorithm::instantiate; }},
    {MemoryKind::temporary, "a smaller --batch-size", can_split},
    {MemoryKind::temporary, "a shorter --seq-length", always},
    {MemoryKind::communication, "--in-flight 0",
     [](const Case& at) { return at.experiment.shard.in_flight.count > 0; }},
    {MemoryKind::data, "a smaller --batch-size", can_split},
};

std::vector<std::pair<Bytes, MemoryKind>> by_size(const profile::MemoryBreakdown& memory) {
  std::vector<std::pair<Bytes, MemoryKind>> out;
  for (const auto& [name, kind] : names_of(MemoryKind{})) out.emplace_back(memory.of(kind), kind);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  return out;
}

}  // namespace

std::string largest_part(const StepRecord& record) {
  const auto [bytes, kind] = by_size(record.peak).front();
  auto words = to_string(kind);
  std::replace(words.begin(), words.end(), '_', ' ');
  const double share =
      static_cast<double>(bytes.count) / static_cast<double>(std::max<int64_t>(1, record.peak.total.count));
  return text(to_string(bytes), " of ", words, " (", std::lround(100 * share), " %)");
}

std::string peak_remedy(const StepRecord& record, const measure::Experiment& experiment) {
  const Case at{record, experiment};
  for (const auto& [bytes, kind] : by_size(record.peak)) {
    if (bytes.count == 0) break;
    for (const auto& remedy : kRemedies)
      if (remedy.kind == kind && remedy.left(at)) return remedy.words;
  }
  return {};
}

}  // namespace shade::plan
