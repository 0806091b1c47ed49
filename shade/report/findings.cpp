#include "shade/report/findings.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/catalog/remedies.h"

namespace shade::report {
namespace {

std::string in_group(const ResultRow& row) { return row.group.empty() ? "" : " at " + row.group; }

std::vector<std::string> groups_of(const std::vector<ResultRow>& rows) {
  std::vector<std::string> out;
  for (const auto& row : rows)
    if (std::find(out.begin(), out.end(), row.group) == out.end()) out.push_back(row.group);
  return out;
}

using Rows = std::vector<const ResultRow*>;
Rows select(const Results& results, const std::function<bool(const ResultRow&)>& wanted) {
  Rows out;
  for (const auto& row : results.rows)
    if (wanted(row)) out.push_back(&row);
  return out;
}

// Fastest first. Rows that failed (out of memory, say) don't take part: what is left fits.
Rows by_speed(const Results& results, const std::string& group, bool only_private) {
  auto rows =
      select(results, [&](const auto& row) { return row.group == group && (!only_private || row.is_private()); });
  std::sort(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->time_ms < b->time_ms; });
  return rows;
}

std::string describe(const Results& results, const ResultRow& row) {
  auto out = text(row.mode, ": ", time_text(row.time_ms), " a step, ", memory_text(row.peak_mb), " a rank");
  if (const auto cost = cost_of(results, row))
    out += text(" (time ", time_cost_text(row, *results.without_privacy(row)), ", ",
                signed_percent(cost->memory_percent), " memory over ", results.baseline(), ")");
  return out;
}

// Times may be compared: of rows that ran once, or on a machine that others used, they are shown and no more.
bool all_settled(const Rows& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const auto* row) { return is_settled(*row); });
}

void doubts(const Results& results, std::vector<Finding>& out) {
  const auto busy = select(results, [](const auto& row) { return row.others.value_or(0) > kBusy; });
  if (!busy.empty()) {
    std::vector<double> shares;
    for (const auto* row : busy) shares.push_back(100 * *row->others);
    const auto [low, high] = std::minmax_element(shares.begin(), shares.end());
    const auto from = percent(*low), to = percent(*high);
    out.push_back({kBusyMachine,
                   text("other programs used ", from == to ? from : text(from, " to ", to), " of the cores while ",
                        busy.size(), " of ", results.rows.size(),
                        " rows ran. Their times are shown and not compared; measure again on an idle machine."),
                   true});
  }
  if (results.unfinished > 0)
    out.push_back({"Unfinished",
                   text(results.unfinished, results.unfinished == 1 ? " row is" : " rows are",
                        " from repeats/ alone: the matrix was cut short. The same command with --output-dir of this "
                        "folder and --resume runs what is missing."),
                   true});
  const auto few = select(results, [](const auto& row) { return row.ratio && !row.ratio->interval; });
  if (!few.empty())
    out.push_back({"Too few runs",
                   text(few.size(), " of ", results.rows.size(),
                        " rows ran too seldom for an interval of their times, which are shown and not compared; "
                        "--repeats 9 or a --time-budget gives intervals."),
                   true});
}

// A lead that noise explains is none.
std::string rivals(const Rows& fastest_first) {
  std::vector<std::string> close;
  for (size_t i = 1; i < fastest_first.size(); ++i)
    if (!distinguishable(*fastest_first[i], *fastest_first[0])) close.push_back(fastest_first[i]->mode);
  return close.empty() ? "" : text(" Its time is not distinguishable from that of ", join(close, ", "), ".");
}

void fastest(const Results& results, std::vector<Finding>& out) {
  auto groups = groups_of(results.rows);
  std::reverse(groups.begin(), groups.end());  // the longest sequence first: it decides
  for (const auto& group : groups) {
    auto rows = by_speed(results, group, true);
    const bool has_private = !rows.empty();
    if (!has_private) rows = by_speed(results, group, false);
    const bool alone = rows.size() == 1;
    if (!has_private && alone) continue;  // a strategy sweep has its own sentence
    if (!all_settled(rows)) continue;
    std::vector<std::string> failed;
    for (const auto& row : results.failures)
      if (row.group == group) failed.push_back(row.mode);
    out.push_back({"Fastest that fits" + (group.empty() ? "" : ", " + group),
                   text(describe(results, *rows[0]), ".", rivals(rows),
                        failed.empty() ? "" : text(" Did not run here: ", join(failed, ", "), "."))});
  }
}

void fastest_strategy(const Results& results, std::vector<Finding>& out) {
  std::set<std::pair<std::string, int64_t>> strategies;
  const auto rows = select(results, [](const auto& row) { return !row.is_private() && row.tokens_per_second > 0; });
  for (const auto* row : rows) strategies.emplace(row->shard, row->batch_size);
  if (strategies.size() < 2) return;
  const auto* best = *std::max_element(rows.begin(), rows.end(), [](const auto* a, const auto* b) {
    return a->tokens_per_second < b->tokens_per_second;
  });
  const auto* least =
      *std::min_element(rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->peak_mb < b->peak_mb; });
  const auto unit = results.throughput_unit();
  const auto speed = text("highest throughput: ", significant(best->tokens_per_second), " ", unit, in_group(*best),
                          " with ", memory_text(best->peak_mb), " a rank; ");
  out.push_back(
      {"Without privacy", text(all_settled(rows) ? speed : "", "least memory: ", memory_text(least->peak_mb),
                               in_group(*least), " with ", significant(least->tokens_per_second), " ", unit, ".")});
}

std::string range_text(const std::vector<double>& values, const std::string& unit) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const auto first = signed_percent(*low), last = signed_percent(*high);
  return first == last ? first + unit : text(first, " to ", last, unit);
}

// Of those differences in time that are larger than their noise; `unsure` is the number of all others. A range and
// "not distinguishable" are never said of the same pair.
std::string time_range(const std::vector<double>& differences, size_t unsure) {
  if (differences.empty()) return unsure == 0 ? "time not compared" : "time not distinguishable";
  const auto range = range_text(differences, " time");
  if (unsure == 0) return range;
  return text(range, " in ", differences.size(), " of ", differences.size() + unsure, " pairs, not distinguishable in ",
              unsure == 1 ? "the other one" : text("the other ", unsure));
}

// Privacy keeps more, and is expected to need more; where it doesn't, the category that differs most.
std::string why_less(const ResultRow& row, const ResultRow& twin) {
  const std::pair<std::string, double>* most = nullptr;
  const auto less = [&](const auto& kind) { return kind.second - amount_of(row.breakdown_mb, kind.first); };
  for (const auto& kind : twin.breakdown_mb)
    if (most == nullptr || less(kind) > less(*most)) most = &kind;
  if (most == nullptr || less(*most) <= 0) return "";
  return text(" It needs less memory than without privacy (", row.name, "): at the peak ",
              memory_text(amount_of(row.breakdown_mb, most->first)), " of ", most->first, " against ",
              memory_text(most->second), ".");
}

void costs(const Results& results, std::vector<Finding>& out) {
  for (const auto& [method, word] : methods_of(results.rows)) {
    std::vector<double> time, memory;
    size_t unsure = 0;
    const ResultRow* smaller = nullptr;  // needs least of what the row without privacy does
    for (const auto& row : results.rows) {
      const auto cost = row.method == method ? cost_of(results, row) : std::nullopt;
      if (!cost) continue;
      const auto& twin = *results.without_privacy(row);
      memory.push_back(cost->memory_percent);
      if (cost->memory_percent < -1 && cost->memory_percent <= *std::min_element(memory.begin(), memory.end()))
        smaller = &row;
      if (!is_settled(row) || !is_settled(twin)) continue;
      if (distinguishable(row, twin))
        time.push_back(cost->time_percent);
      else
        ++unsure;
    }
    if (memory.empty()) continue;
    auto words = text(time_range(time, unsure), ", ", range_text(memory, " memory"), " over ", results.baseline(),
                      " at the same shape (", memory.size(), memory.size() == 1 ? " shape)." : " shapes).");
    if (unsure > 0) words += " More runs (--time-budget, --repeats) narrow the intervals of the times.";
    if (smaller != nullptr) words += why_less(*smaller, *results.without_privacy(*smaller));
    out.push_back({"Cost of " + word, words});
  }
}

std::string why_smaller(const ResultRow& two, const ResultRow& three) {
  const double gathered_two = amount_of(two.breakdown_mb, "gathered_parameters");
  const double gathered_three = amount_of(three.breakdown_mb, "gathered_parameters");
  if (two.breakdown_mb.empty() || three.breakdown_mb.empty()) return "";
  auto out = text(" Gathered parameters at the peak: ", memory_text(gathered_three), " against ",
                  memory_text(gathered_two), "; all the rest: ", memory_text(three.peak_mb - gathered_three),
                  " against ", memory_text(two.peak_mb - gathered_two), ".");
  if (gathered_two < 0.1 * two.peak_mb)
    out += " Only gathered parameters are ZeRO-3's to save, and here they are under a tenth of the peak.";
  return out;
}

// One pair is an example; what all of them say.
std::string over_all_pairs(const std::vector<std::pair<const ResultRow*, const ResultRow*>>& pairs) {
  if (pairs.size() < 2) return "";
  std::vector<double> memory, time;
  size_t unsure = 0;
  for (const auto& [two, three] : pairs) {
    memory.push_back(100 * (three->peak_mb / two->peak_mb - 1));
    if (!all_settled({two, three})) continue;
    if (distinguishable(*three, *two))
      time.push_back(100 * (time_over(*three, *two) - 1));
    else
      ++unsure;
  }
  return text(" Over all ", pairs.size(), " pairs: ", range_text(memory, " memory"), "; ", time_range(time, unsure),
              ".");
}

// At the pair where the strategies differ most in bytes, and over all.
void zero3_against_zero2(const Results& results, std::vector<Finding>& out) {
  const ResultRow *two = nullptr, *three = nullptr;
  std::vector<std::pair<const ResultRow*, const ResultRow*>> pairs;
  for (const auto& row : results.rows) {
    const auto* other = under_zero2(results, row);
    if (other == nullptr) continue;
    pairs.emplace_back(other, &row);
    if (two == nullptr || std::abs(other->peak_mb - row.peak_mb) > std::abs(two->peak_mb - three->peak_mb))
      two = other, three = &row;
  }
  if (two == nullptr) return;
  const double saved = two->peak_mb - three->peak_mb;
  const auto share = percent(100 * std::abs(saved) / two->peak_mb);
  const auto verdict = saved > 0.005 * two->peak_mb    ? text("smaller by ", memory_text(saved), " (", share, ")")
                       : saved < -0.005 * two->peak_mb ? text("larger by ", memory_text(-saved), " (", share, ")")
                                                       : std::string("no smaller");
  auto words = text("ZeRO-3 is ", verdict, " than ZeRO-2 (", three->name, "): ", memory_text(three->peak_mb),
                    " against ", memory_text(two->peak_mb), ".", why_smaller(*two, *three));
  if (two->moves_bytes() && three->moves_bytes())
    words += text(" It sends ", significant(*three->sent_bytes / *two->sent_bytes), " x the bytes",
                  !all_settled({two, three}) || pairs.size() > 1 ? ""  // then the time of all pairs follows
                  : !distinguishable(*three, *two)
                      ? ", and its time is not distinguishable from that of ZeRO-2"
                      : text(" and takes ", significant(time_over(*three, *two)), " x the time"),
                  ".");
  out.push_back({"ZeRO-3 or ZeRO-2", words + over_all_pairs(pairs)});
}

// "a, b or c".
std::string any_of(std::vector<std::string> words) {
  if (words.size() < 2) return join(words, "");
  const auto last = words.back();
  words.pop_back();
  return text(join(words, ", "), " or ", last);
}

catalog::Settings all_settings(const ResultRow& row) {
  auto out = row.settings;
  out.insert(row.privacy.begin(), row.privacy.end());
  out["dp"] = row.is_private() ? row.method : "none";
  return out;
}

// Of a kind of memory that a result names; empty: none is known, or the kind isn't.
std::string less_memory(const std::string& named, const ResultRow& row) {
  for (const auto& [name, kind] : names_of(MemoryKind{}))
    if (name == named) return any_of(catalog::less_memory(kind, all_settings(row)));
  return {};
}

void change_memory(const Results& results, std::vector<Finding>& out) {
  const auto* row = &*std::max_element(results.rows.begin(), results.rows.end(),
                                       [](const auto& a, const auto& b) { return a.peak_mb < b.peak_mb; });
  if (row->breakdown_mb.empty() || row->peak_mb <= 0) return;
  const auto largest = *std::max_element(row->breakdown_mb.begin(), row->breakdown_mb.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto remedy = less_memory(largest.first, *row);
  out.push_back({"To use less memory", text("the largest peak (", row->name, ", ", memory_text(row->peak_mb), ") is ",
                                            percent(100 * largest.second / row->peak_mb), " ", largest.first,
                                            remedy.empty() ? "." : text("; try ", remedy, "."))});
}

void change_time(const Results& results, std::vector<Finding>& out) {
  const ResultRow* worst = nullptr;
  const auto share = [](const ResultRow& row) { return row.waits_ms() / row.time_ms; };
  for (const auto& row : results.rows)
    if (row.moves_bytes() && row.time_ms > 0 && row.others.value_or(0) <= kBusy &&
        (worst == nullptr || share(row) > share(*worst)))
      worst = &row;
  if (worst == nullptr) return;
  const auto waits = percent(100 * share(*worst));
  if (share(*worst) < 0.1) {
    out.push_back({"To use less time", text("traffic is hidden: at most ", waits, " of a step waits for it (",
                                            worst->name, "). Time goes into computing.")});
    return;
  }
  const auto& phases = worst->phases_ms;
  const bool gathers = amount_of(phases, "gather_wait") >= amount_of(phases, "reduce_wait");
  out.push_back(
      {"To use less time", text(waits, " of a step waits for traffic (", worst->name, "); try ",
                                join(catalog::less_time(gathers ? SpanName::gather_wait : SpanName::reduce_wait,
                                                        /*square=*/false, all_settings(*worst)),
                                     "; or "),
                                ".")});
}

// What a plan says of rows by themselves; measured ones have run.
void planned(const Results& results, std::vector<Finding>& out) {
  std::vector<std::string> too_large;
  for (const auto& row : results.rows)
    if (row.fits && !*row.fits) too_large.push_back(text(row.name, " (", memory_text(row.peak_mb), " of tensors)"));
  if (!too_large.empty())
    out.push_back(
        {"Does not fit", text("the memory of the device is less than is reserved by ", join(too_large, ", "), ".")});
  if (results.rows.size() != 1 || results.rows.front().planned_for.empty()) return;
  const auto& row = results.rows.front();
  out.push_back({"Peak", text(memory_text(row.peak_mb), " of tensors per rank",
                              row.peak_owner.empty() ? "" : text(", reached by ", row.peak_owner), ".")});
}

void failures(const Results& results, std::vector<Finding>& out) {
  for (const auto& row : results.failures)
    out.push_back({"Did not run", text(row.name, " (", row.file, "): ", row.failure)});
}

}  // namespace

std::optional<Cost> cost_of(const Results& results, const ResultRow& row) {
  if (row.failed() || !row.is_private()) return std::nullopt;
  const auto* twin = results.without_privacy(row);
  if (twin == nullptr || twin->time_ms <= 0 || twin->peak_mb <= 0) return std::nullopt;
  return Cost{.time_percent = 100 * (time_over(row, *twin) - 1),
              .memory_percent = 100 * (row.peak_mb / twin->peak_mb - 1),
              .memory_mb = row.peak_mb - twin->peak_mb};
}

const ResultRow* under_zero2(const Results& results, const ResultRow& row) {
  if (row.shard != "zero3" || row.failed()) return nullptr;
  auto wanted = row.settings;
  wanted["shard"] = "zero2";
  for (const auto& other : results.rows)
    if (other.method == row.method && other.seq_length == row.seq_length && other.settings == wanted) return &other;
  return nullptr;
}

std::vector<Finding> findings_of(const Results& results) {
  std::vector<Finding> out;
  doubts(results, out);
  if (!results.rows.empty()) {
    fastest(results, out);
    fastest_strategy(results, out);
    costs(results, out);
    zero3_against_zero2(results, out);
    planned(results, out);
    change_memory(results, out);
    change_time(results, out);
  }
  failures(results, out);
  return out;
}

std::string memory_text(double mb) { return to_string(Bytes{static_cast<int64_t>(std::llround(mb * 1024 * 1024))}); }
std::string time_text(double ms) { return to_string(Seconds(ms / 1e3)); }

}  // namespace shade::report
