#include "shade/cli/plan_advice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"

namespace shade::cli {
namespace {

plan::Stated stated(const StatedRow& row) {
  plan::Stated out{
      .experiment = row.experiment, .given = row.given, .ranks = row.run.ranks(), .kept = row.on_line, .varied = {}};
  for (const auto& [option, value] : row.row.varied)
    if (option != "--batch-size") out.varied.emplace_back(option.substr(option.find_first_not_of('-')), value);
  return out;
}

std::string gigabytes(double bytes) { return text(significant(bytes / 1e9), " GB/s"); }

}  // namespace

Arguments with_methods(Arguments words) {
  std::vector<std::string> names;  // the last, `auto`, is the one that others are likely to lose against
  for (const auto method : catalog::private_methods())
    if (method != catalog::MethodName::streaming) names.insert(names.begin(), to_string(method));
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i - 1] == "--dp" && words[i] == "any") words[i] = join(names, ",");
  return words;
}

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

bool PlanAdvice::run(const std::vector<StatedRow>& rows, bool any_method, const PlanTime& time) {
  timed_ = time.device().has_value();
  reserves_ = time.target().accelerator().has_value();
  std::vector<plan::Stated> all;
  for (const auto& row : rows) all.push_back(stated(row));
  advisor_.emplace(std::move(all), limit_, any_method, time.target());
  {
    std::optional<Progress> progress;
    advisor_->search([&](size_t begun, size_t families, const std::string& name) {
      if (!progress) progress.emplace("advise", static_cast<int64_t>(families));
      progress->advance_to(static_cast<int64_t>(begun), name);
    });
  }
  print(rows);
  return !advisor_->advice().front.empty();
}

void PlanAdvice::print(const std::vector<StatedRow>& rows) const {
  std::printf("limit: %s %s per rank; %zu settings tried\n", to_string(limit_).c_str(),
              reserves_ ? "reserved" : "of tensors", advisor_->advice().tried.size());
  if (advisor_->advice().front.empty()) {
    std::printf("nothing fits\n");
  } else {
    print_front();
    print_best(rows);
  }
  print_losers();
}

std::vector<std::string> PlanAdvice::cells(const plan::Tried& tried) const {
  const auto& found = tried.estimate;
  std::vector<std::string> out{advisor_->name_of(tried.candidate), to_string(found.peak)};
  if (timed_)
    out.insert(out.end(), {significant(1 / found.time), to_string(Seconds(1000 * found.cost))});
  else
    out.insert(out.end(), {text(significant(found.time / 1e12), " TFLOP"), to_string(Bytes{std::llround(found.cost)})});
  return out;
}

void PlanAdvice::print_front() const {
  const auto& advice = advisor_->advice();
  Table table({"settings", "peak memory per rank", timed_ ? "samples/s" : "work per sample",
               timed_ ? "device time per 1000 samples" : "sent per sample"});
  for (const auto index : advice.front) table.add(cells(advice.tried[index]));
  std::printf("\n%s, and what needs less memory or costs less\n%s", timed_ ? "fastest" : "least work",
              table.str().c_str());
}

void PlanAdvice::print_best(const std::vector<StatedRow>& rows) const {
  const auto& best = advisor_->recommended();
  auto words = rows[best.edit.row].row.arguments;
  const auto state = [&](const std::string& option, const std::string& value) {
    const auto known = std::find(words.begin(), words.end(), option);
    if (known == words.end())
      words.insert(words.end(), {option, value});
    else
      *(known + 1) = value;
  };
  for (const auto& [option, value] : advisor_->settings(best)) state("--" + option, value);
  state("--batch-size", std::to_string(best.batch));
  std::printf("\nrecommended: shade bench %s\n", visible(join(words, " ")).c_str());
  std::printf("largest that fits with these settings: batch size %lld",
              static_cast<long long>(*advisor_->largest_batch()));
  if (const auto length = advisor_->largest_length())
    std::printf("; at batch size %lld, sequence length %lld", static_cast<long long>(best.batch),
                static_cast<long long>(*length));
  std::printf("\n");
  const auto& crossovers = advisor_->crossovers();
  if (crossovers.ranges.empty()) return;
  std::printf("\nfastest by bandwidth %s per device (present: %s)\n",
              crossovers.network ? "between nodes" : "in a node", gigabytes(crossovers.present).c_str());
  for (const auto& [name, from, to] : crossovers.ranges)
    std::printf("  %s to %s: %s\n", gigabytes(from).c_str(), gigabytes(to).c_str(), visible(name).c_str());
}

// One line for each family: its fastest that fits, or its leanest.
void PlanAdvice::print_losers() const {
  const auto& advice = advisor_->advice();
  std::set<plan::Edit> done;
  for (const auto index : advice.front) done.insert(advice.tried[index].candidate.edit);
  std::string lines;
  for (const auto& first : advice.tried) {
    if (!done.insert(first.candidate.edit).second) continue;
    const auto* shown = &first;
    for (const auto& other : advice.tried)
      if (other.candidate.edit == first.candidate.edit && other.verdict == plan::Verdict::slower &&
          (shown->verdict != plan::Verdict::slower || other.estimate.time < shown->estimate.time))
        shown = &other;
    lines += text("  ", advisor_->name_of(shown->candidate), ": ", advisor_->reason_of(*shown), "\n");
  }
  if (!lines.empty()) std::printf("\nnot chosen\n%s", visible_lines(lines).c_str());
}

}  // namespace shade::cli
