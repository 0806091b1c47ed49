#include "shade/plan/advisor.h"

#include <algorithm>
#include <map>

#include "shade/base/strings.h"
#include "shade/base/units.h"

namespace shade::plan {
namespace {

constexpr int64_t kMostSamples = 4096, kMostTokens = 1 << 20, kLengthStep = 64;

// Copies of the model: one for each node if there are several, so that gathers stay inside.
int64_t replicas(int ranks, const Target& target) {
  const int per_node = target.device ? target.device->ranks_per_node : ranks;
  const bool several = ranks > per_node && ranks % per_node == 0;
  return several ? ranks / per_node : 2;
}

std::string name_of(const std::string& option, const std::string& value) {
  if (option == "dp" || option == "shard" || option == "dtype") return value;
  if (option == "checkpointing") return value == "none" ? "no checkpointing" : value + " checkpointing";
  if (option == "offload") return value == "true" ? "offload" : "no offload";
  return text(option, " ", value);
}

double per_sample(double of_rank, const StepRecord& record) {
  return of_rank * record.ranks / static_cast<double>(std::max<int64_t>(1, record.samples));
}

// Of a GPU with what its allocator keeps for itself.
Bytes needed(const StepRecord& record) { return std::max(record.peak.total, record.reserved); }

}  // namespace

Advisor::Advisor(std::vector<Stated> stated, Bytes limit, bool any_method, const Target& target)
    : stated_(std::move(stated)),
      space_{.families = {}, .refinements = {}, .last_resorts = {}, .limit = limit},
      target_(&target) {
  bool offload_kept = false;
  for (size_t row = 0; row < stated_.size(); ++row) {
    const auto& one = stated_[row];
    // Rows that differ by their batch alone are one family with several batches.
    const auto first = static_cast<size_t>(
        std::find_if(stated_.begin(), stated_.end(), [&](const Stated& other) { return other.varied == one.varied; }) -
        stated_.begin());
    const bool batch_kept = one.kept.contains("bench.batch_size");
    for (const auto& edit : completed(first))
      space_.families.push_back({edit, batch_kept ? std::optional(one.experiment.bench.batch_size) : std::nullopt});
    if (!one.kept.contains("shard.wrap") && one.ranks > 1)
      space_.refinements = {{.wrap = shard::Wrap::size}, {.wrap = shard::Wrap::none}};
    offload_kept = offload_kept || one.kept.contains("shard.offload");
  }
  if (any_method) space_.last_resorts.push_back({.dp = catalog::MethodName::streaming});
  if (!offload_kept) space_.last_resorts.push_back({.offload = true});
}

// What a row leaves open.
std::vector<Edit> Advisor::completed(size_t row) const {
  const auto& [experiment, given, ranks, kept, varied] = stated_[row];
  std::vector<Edit> out{{.row = row}};
  const auto vary = [&](const std::vector<Edit>& choices) {
    std::vector<Edit> product;
    for (const auto& edit : out)
      for (const auto& choice : choices) product.push_back(edit.with(choice));
    out = std::move(product);
  };
  if (!kept.contains("shard.shard")) {
    std::vector<Edit> strategies;
    for (const auto strategy : catalog::strategies_for(ranks))
      if (ranks > 1 || strategy == catalog::Strategy::none) strategies.push_back({.shard = strategy});
    vary(strategies);
  }
  if (!kept.contains("model.checkpointing"))
    vary({{.checkpointing = models::Checkpointing::none}, {.checkpointing = models::Checkpointing::block}});
  const bool varies = std::any_of(varied.begin(), varied.end(), [](const auto& one) { return one.first == "shard"; });
  const auto stated = varies ? experiment.shard.shard : catalog::Strategy::none;
  for (auto& edit : out)
    if (edit.shard.value_or(stated) == catalog::Strategy::hsdp && !kept.contains("shard.replicate"))
      edit.replicate = replicas(ranks, *target_);
  return out;
}

train::Resolved<measure::Experiment> Advisor::run_of(const Candidate& candidate) const {
  const auto& [edit, batch] = candidate;
  auto [experiment, given, ranks, kept, varied] = stated_[edit.row];
  const auto set = [&given](const char* key, auto& field, const auto& value) {
    if (!value) return;
    field = *value;
    if constexpr (NamedEnum<std::decay_t<decltype(*value)>>)
      given.state(key, to_string(*value));
    else
      given.state(key, text(*value));
  };
  set("dp.dp", experiment.dp.dp, edit.dp);
  set("shard.shard", experiment.shard.shard, edit.shard);
  set("model.checkpointing", experiment.model.checkpointing, edit.checkpointing);
  set("shard.wrap", experiment.shard.wrap, edit.wrap);
  set("shard.replicate", experiment.shard.replicate, edit.replicate);
  set("shard.offload", experiment.shard.offload, edit.offload);
  set("bench.seq_length", experiment.work.seq_length, edit.seq_length);
  set("bench.batch_size", experiment.bench.batch_size, std::optional(batch));
  return train::resolve(experiment, given, ranks);
}

Planned Advisor::planned(const Candidate& candidate, Planned::Events events) const {
  auto run = run_of(candidate);
  Planned out{.name = run->mode, .run = std::move(run), .capacity = space_.limit};
  out.make(*target_, events);
  return out;
}

Estimate Advisor::estimate(const Candidate& candidate) const {
  const auto found = planned(candidate);
  const auto& record = found.record;
  if (!found.refused.empty()) return {.refused = found.refused};
  const auto remedy = peak_remedy(record, found.run->options);
  Estimate out{.peak = needed(record),
               .blame = text(largest_part(record), ", the peak is ", record.owner.describe(),
                             remedy.empty() ? "" : text("; ", remedy, " needs less"))};
  if (found.time) {
    out.time = found.time->time.step.count() / static_cast<double>(std::max<int64_t>(1, record.samples));
    out.cost = out.time * record.ranks;
    return out;
  }
  for (const auto& [phase, sum] : record.phases) out.time += per_sample(sum.flops, record);
  out.cost = per_sample(static_cast<double>(record.sent.count), record);
  return out;
}

bool Advisor::fits(const Candidate& candidate) const {
  const auto found = planned(candidate);
  return found.refused.empty() && needed(found.record) <= space_.limit;
}

void Advisor::search(const std::function<void(size_t begun, size_t all, const std::string& name)>& progress) {
  const auto all = space_.families.size();
  std::set<Edit> begun;
  advice_ = advise(space_, [&](const Candidate& candidate) {
    begun.insert(candidate.edit);
    progress(std::min(begun.size() - 1, all), all, name_of(candidate));
    return estimate(candidate);
  });
  if (advice_.front.empty()) return;
  find_largest();
  if (target_->device) find_crossovers();
}

void Advisor::find_largest() {
  const auto& best = recommended();
  largest_batch_ =
      largest_that_fits(best.batch, 1, kMostSamples, [&](int64_t batch) { return fits({best.edit, batch}); });
  const auto found = planned(best);
  const auto length = found.run->work.seq_length;
  if (found.record.tokens != length * found.record.samples) return;  // images have their own number of patches
  largest_length_ = largest_that_fits(length, kLengthStep, kMostTokens, [&](int64_t tokens) {
    return fits({best.edit.with({.seq_length = tokens}), best.batch});
  });
}

// The fastest of each strategy.
void Advisor::find_crossovers() {
  std::map<std::string, const Tried*> fastest;
  for (const auto& tried : advice_.tried) {
    if (tried.verdict != Verdict::front && tried.verdict != Verdict::slower) continue;
    auto& best = fastest[to_string(run_of(tried.candidate)->shard.shard)];
    if (best == nullptr || tried.estimate.time < best->estimate.time) best = &tried;
  }
  if (fastest.size() < 2) return;
  std::vector<Contender> contenders;
  for (const auto& [strategy, tried] : fastest)
    contenders.push_back({name_of(tried->candidate), planned(tried->candidate, Planned::Events::keep).record});
  crossovers_ = plan::crossovers(contenders, *target_->device, target_->options);
}

std::vector<std::pair<std::string, std::string>> Advisor::settings(const Candidate& candidate) const {
  const auto& edit = candidate.edit;
  auto out = stated_[edit.row].varied;
  const auto set = [&](const std::string& option, const std::string& value) {
    const auto known = std::find_if(out.begin(), out.end(), [&](const auto& one) { return one.first == option; });
    if (known == out.end())
      out.emplace_back(option, value);
    else
      known->second = value;
  };
  if (edit.shard) set("shard", to_string(*edit.shard));
  if (edit.checkpointing) set("checkpointing", to_string(*edit.checkpointing));
  if (edit.replicate) set("replicate", std::to_string(*edit.replicate));
  if (edit.dp) set("dp", to_string(*edit.dp));
  if (edit.wrap) set("wrap", to_string(*edit.wrap));
  if (edit.offload) set("offload", *edit.offload ? "true" : "false");
  if (edit.seq_length) set("seq-length", std::to_string(*edit.seq_length));
  return out;
}

std::string Advisor::name_of(const Candidate& candidate) const {
  std::vector<std::string> parts;
  for (const auto& [option, value] : settings(candidate)) parts.push_back(plan::name_of(option, value));
  parts.push_back(text("batch ", candidate.batch));
  return join(parts, ", ");
}

std::string Advisor::reason_of(const Tried& tried) const {
  ReasonWords words{.name = [this](const Candidate& one) { return name_of(one); }};
  if (!target_->device) words.slower = "more work than", words.alike = "as much work as";
  return reason(advice_, tried, space_.limit, words);
}

Json Advisor::json() const {
  const bool timed = target_->device.has_value();
  Json rows = Json::array();
  for (const auto& tried : advice_.tried) {
    Json stated = Json::object();
    for (const auto& [option, value] : settings(tried.candidate)) stated[option] = value;
    Json row{{"name", name_of(tried.candidate)},
             {"settings", stated},
             {"batch_size", tried.candidate.batch},
             {"verdict", to_string(tried.verdict)}};
    if (tried.verdict != Verdict::refused) {
      row["peak_memory_mb"] = mib(tried.estimate.peak);
      row[timed ? "ms_per_sample" : "flops_per_sample"] = tried.estimate.time * (timed ? 1e3 : 1);
      row[timed ? "device_ms_per_sample" : "sent_bytes_per_sample"] = tried.estimate.cost * (timed ? 1e3 : 1);
    }
    if (tried.verdict != Verdict::front) row["reason"] = reason_of(tried);
    rows.push_back(std::move(row));
  }
  Json out{{"memory_limit_mb", mib(space_.limit)}, {"rows", rows}};
  if (!advice_.front.empty()) {
    const auto& best = recommended();
    auto words = Json::array();
    for (const auto& [option, value] : settings(best)) words.insert(words.end(), {"--" + option, value});
    words.insert(words.end(), {"--batch-size", std::to_string(best.batch)});
    out["recommended"] = {
        {"name", name_of(best)}, {"arguments", words}, {"plan", planned(best, Planned::Events::timeline).json()}};
    out["largest_batch_size"] = *largest_batch_;
    if (largest_length_) out["largest_seq_length"] = *largest_length_;
  }
  if (!crossovers_.ranges.empty()) {
    Json ranges = Json::array();
    for (const auto& [name, from, to] : crossovers_.ranges)
      ranges.push_back({{"fastest", name}, {"from_bytes_per_second", from}, {"to_bytes_per_second", to}});
    out["by_bandwidth"] = {{"link", crossovers_.network ? "network" : "inside"}, {"ranges", ranges}};
  }
  return out;
}

std::string Advisor::csv() const {
  const bool timed = target_->device.has_value();
  std::vector<const char*> keys{"name",
                                "batch_size",
                                "peak_memory_mb",
                                timed ? "ms_per_sample" : "flops_per_sample",
                                timed ? "device_ms_per_sample" : "sent_bytes_per_sample",
                                "verdict",
                                "reason"};
  std::string out;
  for (const auto* key : keys) out += text(out.empty() ? "" : ",", key);
  out += "\n";
  const auto json = this->json();
  for (const auto& row : json.at("rows")) {
    std::vector<std::string> cells;
    for (const auto* key : keys) cells.push_back(row.contains(key) ? row.at(key).dump() : "");
    out += join(cells, ",") + "\n";
  }
  return out;
}

}  // namespace shade::plan
