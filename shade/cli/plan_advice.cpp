#include "shade/cli/plan_advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/measure/mib.h"
#include "shade/plan/peak_remedy.h"
#include "shade/plan/step_record.h"

namespace shade::cli {
namespace {

constexpr int64_t kMostSamples = 4096, kMostTokens = 1 << 20, kLengthStep = 64;

// `--dp any` stands for every clipping method, but for the slowest and leanest, which is a last resort. Privacy itself
// is never the advice's to choose: without --dp the runs are not private.
Arguments with_methods(Arguments words) {
  std::vector<std::string> names;  // the last, `auto`, is the one that others are likely to lose against
  for (const auto method : catalog::private_methods())
    if (method != catalog::MethodName::streaming) names.insert(names.begin(), to_string(method));
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i - 1] == "--dp" && words[i] == "any") words[i] = join(names, ",");
  return words;
}

bool given(const Arguments& words, const std::string& option) {
  return std::find(words.begin(), words.end(), option) != words.end();
}

// Copies of the model: one for each node if there are several, so that gathers stay inside.
std::string replicas(int ranks, const PlanTime& time) {
  const int per_node = time.device() ? time.device()->ranks_per_node : ranks;
  const bool several = ranks > per_node && ranks % per_node == 0;
  return std::to_string(several ? ranks / per_node : 2);
}

// Settings that a row leaves open.
std::vector<plan::Settings> completed(const measure::MatrixRow& row, int ranks, const PlanTime& time) {
  std::vector<plan::Settings> out{row.varied};
  std::erase_if(out.front(), [](const plan::Setting& one) { return one.first == "--batch-size"; });
  const auto vary = [&](const std::string& option, const std::vector<std::string>& values) {
    if (given(row.arguments, option)) return;
    std::vector<plan::Settings> product;
    for (const auto& settings : out)
      for (const auto& value : values) product.push_back(plan::with(settings, {option, value}));
    out = std::move(product);
  };
  std::vector<std::string> strategies;
  for (const auto strategy : catalog::strategies_for(ranks))
    if (ranks > 1 || strategy == catalog::Strategy::none) strategies.push_back(to_string(strategy));
  vary("--shard", strategies);
  vary("--checkpointing", {"none", "block"});
  for (auto& settings : out)
    for (const auto& [option, value] : settings)
      if (option == "--shard" && value == "hsdp" && !given(row.arguments, "--replicate")) {
        settings = plan::with(settings, {"--replicate", replicas(ranks, time)});
        break;
      }
  return out;
}

std::string name_of(const plan::Setting& setting) {
  const auto& [option, value] = setting;
  if (option == "--dp" || option == "--shard" || option == "--dtype") return value;
  if (option == "--checkpointing") return value == "none" ? "no checkpointing" : value + " checkpointing";
  if (option == "--offload") return value == "true" ? "offload" : "no offload";
  return text(option.substr(option.find_first_not_of('-')), " ", value);
}

std::string name_of(const plan::Candidate& candidate) {
  std::vector<std::string> parts;
  for (const auto& setting : candidate.settings) parts.push_back(name_of(setting));
  parts.push_back(text("batch ", candidate.batch));
  return join(parts, ", ");
}

std::string strategy_of(const plan::Candidate& candidate) {
  for (const auto& [option, value] : candidate.settings)
    if (option == "--shard") return value;
  return {};  // the same for all
}

Arguments words_of(const plan::Candidate& candidate) {
  Arguments out;
  for (const auto& [option, value] : candidate.settings) out.insert(out.end(), {option, value});
  out.insert(out.end(), {"--batch-size", std::to_string(candidate.batch)});
  return out;
}

double per_sample(double of_rank, const plan::StepRecord& record) {
  return of_rank * record.ranks / static_cast<double>(std::max<int64_t>(1, record.samples));
}

// Of a GPU with what its allocator keeps for itself.
Bytes needed(const plan::StepRecord& record) { return std::max(record.peak.total, record.reserved); }

std::string gigabytes(double bytes) { return text(significant(bytes / 1e9), " GB/s"); }

}  // namespace

void PlanAdvice::add_to(CLI::App& app) {
  app.add_flag("--advise", asked_,
               "search of the fastest settings within a memory limit: sharding strategy, checkpointing and batch size "
               "where they are not given, --dp any for all clipping methods, then wrapping, and offloading if nothing "
               "else fits");
  app.add_option(
         "--memory-limit", limit_word_,
         "limit for the tensor memory of a rank with --advise, on a GPU for what its allocator reserves, e.g. 24GiB "
         "[memory of the device profile]")
      ->type_name("BYTES");
}

void PlanAdvice::read(const PlanTime& time) {
  if (!asked_) {
    SHADE_REQUIRE(limit_word_.empty(), "--memory-limit is for --advise; add it");
    return;
  }
  if (!limit_word_.empty()) limit_ = parse_bytes(limit_word_);
  if (limit_word_.empty() && time.device()) limit_ = time.device()->memory;
  SHADE_REQUIRE(limit_.count > 0, "--advise needs a limit; add --memory-limit 24GiB or a --device-profile");
}

Planned PlanAdvice::plan(const plan::Candidate& candidate, Planned::Events events) const {
  auto words = words_;
  const auto own = words_of(candidate);
  words.insert(words.end(), own.begin(), own.end());
  std::vector<std::string> notes;  // what is chosen here was stated
  auto out = Planned::read(measure::expand(words).front(), notes);
  out.capacity = limit_;
  out.make(*time_, events);
  return out;
}

plan::Estimate PlanAdvice::estimate(const plan::Candidate& candidate) const {
  const auto planned = plan(candidate);
  const auto& record = planned.record;
  if (!planned.refused.empty()) return {.refused = planned.refused};
  const auto remedy = plan::peak_remedy(record, planned.experiment);
  plan::Estimate out{.peak = needed(record),
                     .blame = text(plan::largest_part(record), ", the peak is ", plan::owner_text(record.owner),
                                   remedy.empty() ? "" : text("; ", remedy, " needs less"))};
  if (planned.time) {
    out.time = planned.time->time.step.count() / static_cast<double>(std::max<int64_t>(1, record.samples));
    out.cost = out.time * record.ranks;
    return out;
  }
  for (const auto& [phase, sum] : record.phases) out.time += per_sample(sum.flops, record);
  out.cost = per_sample(static_cast<double>(record.sent.count), record);
  return out;
}

bool PlanAdvice::fits(const plan::Candidate& candidate) const {
  const auto planned = plan(candidate);
  return planned.refused.empty() && needed(planned.record) <= limit_;
}

bool PlanAdvice::run(const Arguments& words, const PlanTime& time) {
  words_ = with_methods(words);
  time_ = &time;
  plan::SearchSpace space{.families = {}, .refinements = {}, .last_resorts = {}, .limit = limit_};
  std::vector<std::string> notes;
  for (const auto& row : measure::expand(words_)) {
    const auto planned = Planned::read(row, notes);
    const bool stated = given(row.arguments, "--batch-size");
    for (auto& settings : completed(row, planned.ranks, time))
      space.families.push_back(
          {std::move(settings), stated ? std::optional(planned.experiment.bench.batch_size) : std::nullopt});
    if (given(row.arguments, "--wrap") || planned.ranks == 1) continue;
    space.refinements = {{"--wrap", "size"}, {"--wrap", "none"}};
  }
  if (words_ != words) space.last_resorts.emplace_back("--dp", to_string(catalog::MethodName::streaming));
  if (!given(words_, "--offload")) space.last_resorts.emplace_back("--offload", "true");
  {
    Progress progress("advise", static_cast<int64_t>(space.families.size()));
    std::set<plan::Settings> begun;
    advice_ = plan::advise(space, [&](const plan::Candidate& candidate) {
      begun.insert(candidate.settings);
      progress.advance_to(static_cast<int64_t>(std::min(begun.size() - 1, space.families.size())), name_of(candidate));
      return estimate(candidate);
    });
    if (!advice_.front.empty()) {
      find_largest(advice_.tried[advice_.recommended()].candidate);
      if (time.device()) find_crossovers();
    }
  }
  print();
  return !advice_.front.empty();
}

void PlanAdvice::find_largest(const plan::Candidate& best) {
  largest_batch_ =
      plan::largest_that_fits(best.batch, 1, kMostSamples, [&](int64_t batch) { return fits({best.settings, batch}); });
  const auto planned = plan(best);
  const auto length = planned.experiment.bench.seq_length;
  if (planned.record.tokens != length * planned.record.samples) return;  // images have their own number of patches
  largest_length_ = plan::largest_that_fits(length, kLengthStep, kMostTokens, [&](int64_t tokens) {
    return fits({plan::with(best.settings, {"--seq-length", std::to_string(tokens)}), best.batch});
  });
}

// The fastest of each strategy.
void PlanAdvice::find_crossovers() {
  std::map<std::string, const plan::Tried*> fastest;
  for (const auto& tried : advice_.tried) {
    if (tried.verdict != plan::Verdict::front && tried.verdict != plan::Verdict::slower) continue;
    auto& best = fastest[strategy_of(tried.candidate)];
    if (best == nullptr || tried.estimate.time < best->estimate.time) best = &tried;
  }
  if (fastest.size() < 2) return;
  std::vector<plan::Contender> contenders;
  for (const auto& [strategy, tried] : fastest)
    contenders.push_back({name_of(tried->candidate), plan(tried->candidate, Planned::Events::keep).record});
  crossovers_ = plan::crossovers(contenders, *time_->device(), time_->options());
}

void PlanAdvice::print() const {
  std::printf("limit: %s %s per rank; %zu settings tried\n", to_string(limit_).c_str(),
              time_->accelerator() ? "reserved" : "of tensors", advice_.tried.size());
  if (advice_.front.empty()) {
    std::printf("nothing fits\n");
  } else {
    print_front();
    print_best();
  }
  print_losers();
}

std::vector<std::string> PlanAdvice::cells(const plan::Tried& tried) const {
  const auto& found = tried.estimate;
  std::vector<std::string> out{name_of(tried.candidate), to_string(found.peak)};
  if (time_->device())
    out.insert(out.end(), {significant(1 / found.time), to_string(Seconds(1000 * found.cost))});
  else
    out.insert(out.end(), {text(significant(found.time / 1e12), " TFLOP"), to_string(Bytes{std::llround(found.cost)})});
  return out;
}

void PlanAdvice::print_front() const {
  const bool timed = time_->device().has_value();
  Table table({"settings", "peak memory per rank", timed ? "samples/s" : "work per sample",
               timed ? "device time per 1000 samples" : "sent per sample"});
  for (const auto index : advice_.front) table.add(cells(advice_.tried[index]));
  std::printf("\n%s, and what needs less memory or costs less\n%s", timed ? "fastest" : "least work",
              table.str().c_str());
}

void PlanAdvice::print_best() const {
  const auto& best = advice_.tried[advice_.recommended()].candidate;
  auto words = words_;
  const auto own = words_of(best);
  words.insert(words.end(), own.begin(), own.end());
  std::printf("\nrecommended: shade bench %s\n", visible(join(measure::expand(words).front().arguments, " ")).c_str());
  std::printf("largest that fits with these settings: batch size %lld", static_cast<long long>(*largest_batch_));
  if (largest_length_)
    std::printf("; at batch size %lld, sequence length %lld", static_cast<long long>(best.batch),
                static_cast<long long>(*largest_length_));
  std::printf("\n");
  if (crossovers_.ranges.empty()) return;
  std::printf("\nfastest by bandwidth %s per device (present: %s)\n",
              crossovers_.network ? "between nodes" : "in a node", gigabytes(crossovers_.present).c_str());
  for (const auto& [name, from, to] : crossovers_.ranges)
    std::printf("  %s to %s: %s\n", gigabytes(from).c_str(), gigabytes(to).c_str(), visible(name).c_str());
}

plan::ReasonWords PlanAdvice::reason_words() const {
  plan::ReasonWords out{.name = [](const plan::Candidate& one) { return name_of(one); }};
  if (!time_->device()) out.slower = "more work than", out.alike = "as much work as";
  return out;
}

// One line for each family: its fastest that fits, or its leanest.
void PlanAdvice::print_losers() const {
  std::set<plan::Settings> done;
  for (const auto index : advice_.front) done.insert(advice_.tried[index].candidate.settings);
  std::string lines;
  for (const auto& first : advice_.tried) {
    if (!done.insert(first.candidate.settings).second) continue;
    const auto* shown = &first;
    for (const auto& other : advice_.tried)
      if (other.candidate.settings == first.candidate.settings && other.verdict == plan::Verdict::slower &&
          (shown->verdict != plan::Verdict::slower || other.estimate.time < shown->estimate.time))
        shown = &other;
    lines += text("  ", name_of(shown->candidate), ": ", plan::reason(advice_, *shown, limit_, reason_words()), "\n");
  }
  if (!lines.empty()) std::printf("\nnot chosen\n%s", visible_lines(lines).c_str());
}

Json PlanAdvice::json() const {
  const bool timed = time_->device().has_value();
  Json rows = Json::array();
  for (const auto& tried : advice_.tried) {
    Json settings = Json::object();
    for (const auto& [option, value] : tried.candidate.settings) settings[option.substr(2)] = value;
    Json row{{"name", name_of(tried.candidate)},
             {"settings", settings},
             {"batch_size", tried.candidate.batch},
             {"verdict", to_string(tried.verdict)}};
    if (tried.verdict != plan::Verdict::refused) {
      row["peak_memory_mb"] = measure::mib(tried.estimate.peak);
      row[timed ? "ms_per_sample" : "flops_per_sample"] = tried.estimate.time * (timed ? 1e3 : 1);
      row[timed ? "device_ms_per_sample" : "sent_bytes_per_sample"] = tried.estimate.cost * (timed ? 1e3 : 1);
    }
    if (tried.verdict != plan::Verdict::front) row["reason"] = plan::reason(advice_, tried, limit_, reason_words());
    rows.push_back(std::move(row));
  }
  Json out{{"memory_limit_mb", measure::mib(limit_)}, {"rows", rows}};
  if (!advice_.front.empty()) {
    const auto& best = advice_.tried[advice_.recommended()].candidate;
    out["recommended"] = {
        {"name", name_of(best)}, {"arguments", words_of(best)}, {"plan", plan(best, Planned::Events::timeline).json()}};
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

std::string PlanAdvice::csv() const {
  const bool timed = time_->device().has_value();
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

}  // namespace shade::cli
