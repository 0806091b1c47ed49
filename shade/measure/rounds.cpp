#include "shade/measure/rounds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/catalog/methods.h"

namespace shade::measure {

Rounds::Rounds(const std::vector<MatrixRow>& rows, const RepeatRule& rule)
    : rule_(rule),
      references_(references_of(rows)),
      groups_(groups_of(references_)),
      times_(rows.size()),
      failed_(rows.size(), false) {
  for (const auto& row : rows) names_.push_back(row.name);
}

bool Rounds::compared(size_t row) const { return references_[row] && !failed_[row] && !failed_[*references_[row]]; }

bool Rounds::all_precise() const {
  for (size_t row = 0; row < names_.size(); ++row)
    if (compared(row) && !ratio(row)->precise()) return false;
  return true;
}

Seconds Rounds::budget() const {
  return rule_.budget.value_or(std::min(rule_.most, RepeatRule::kDefaultRounds * first_round_));
}

bool Rounds::enough() {
  const auto now = Clock::now();
  if (done_ == 1) first_round_ = now - round_begin_;
  if (done_ > 0) longest_round_ = std::max(longest_round_, Seconds(now - round_begin_));
  if (rule_.repeat > 0) return done_ >= rule_.repeat;
  if (done_ == 0) return false;
  bool any = false;
  for (size_t row = 0; row < names_.size(); ++row) any = any || compared(row);
  if (!any || (next_look(done_ - 1) == done_ && all_precise())) return true;
  // If no budget is given, rounds that don't reach the first interval are not begun.
  const auto least = static_cast<double>(std::max<int64_t>(1, next_look(0) - done_));
  const Seconds spent = now - begin_;
  const auto coming = rule_.budget ? longest_round_ : spent * (least / static_cast<double>(done_));
  return spent + coming > budget();
}

std::vector<size_t> Rounds::next_round() {
  ++done_;
  round_begin_ = Clock::now();
  std::vector<size_t> out;
  for (auto& group : groups_) {
    std::shuffle(group.begin(), group.end(), random_);
    for (const auto row : group)
      if (!failed_[row]) out.push_back(row);
  }
  return out;
}

std::optional<Ratio> Rounds::ratio(size_t row) const {
  if (!compared(row)) return std::nullopt;
  auto out =
      paired_ratio(times_[row], times_[*references_[row]], rule_.repeat > 0 ? kRatioError : error_of_look(done_));
  out.reference = names_[*references_[row]];
  return out;
}

std::string Rounds::advice() const {
  size_t count = 0, without = 0, wide = 0;
  for (size_t row = 0; row < names_.size(); ++row) {
    if (!compared(row)) continue;
    ++count;
    const auto one = ratio(row);
    without += one->interval ? 0 : 1;
    wide += one->precise() ? 0 : 1;
  }
  if (wide == 0) return "";
  const auto least = next_look(0);
  if (without == 0)
    return text(wide, " of ", count, " ratios are not known to 3 % after ", done_,
                " rounds; a longer --time-budget or a quieter machine narrows them");
  return text("ratios have no interval after ", done_, done_ == 1 ? " round" : " rounds", ": that takes ", least,
              ", here about ", to_string(Seconds(static_cast<double>(least) * longest_round_)),
              "; give --time-budget or --repeats ", least);
}

namespace {

bool changes_the_work(const std::string& option) {
  static const std::set<std::string> options{
      "--model",       "--task",       "--seq-length", "--batch-size", "--grad-accum", "--num-iter",
      "--warmup-iter", "--ranks",      "--hidden-dim", "--num-layers", "--num-heads",  "--num-kv-heads",
      "--ffn-dim",     "--vocab-size", "--image-size", "--patch-size", "--num-classes"};
  return options.contains(option);
}

// Methods first, strategies second, the rest as given.
std::vector<size_t> compared_axes(const MatrixRow& row) {
  std::vector<size_t> out;
  for (size_t a = 0; a < row.varied.size(); ++a)
    if (!changes_the_work(row.varied[a].first)) out.push_back(a);
  const auto rank = [&](size_t a) {
    const auto& option = row.varied[a].first;
    return option == "--dp" ? 0 : option == "--shard" ? 1 : 2;
  };
  std::stable_sort(out.begin(), out.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  return out;
}

std::string first_value(const std::vector<MatrixRow>& rows, size_t axis) {
  for (const auto& row : rows) {
    const auto& [option, value] = row.varied[axis];
    const auto* method = catalog::find_row<catalog::MethodInfo>(catalog::kMethods, value);
    if (option == "--dp" && method != nullptr && method->value == catalog::MethodName::none) return value;
  }
  return rows.front().varied[axis].second;
}

}  // namespace

std::vector<std::optional<size_t>> references_of(const std::vector<MatrixRow>& rows) {
  std::map<std::vector<std::pair<std::string, std::string>>, size_t> places;
  for (size_t i = 0; i < rows.size(); ++i) places[rows[i].varied] = i;
  std::vector<std::optional<size_t>> out;
  for (const auto& row : rows) {
    out.emplace_back();
    for (const auto axis : compared_axes(row)) {
      auto wanted = row.varied;
      wanted[axis].second = first_value(rows, axis);
      if (wanted == row.varied) continue;
      out.back() = places.at(wanted);
      break;
    }
  }
  return out;
}

std::vector<std::vector<size_t>> groups_of(const std::vector<std::optional<size_t>>& references) {
  std::map<size_t, std::vector<size_t>> groups;  // by the row that has no reference
  for (size_t i = 0; i < references.size(); ++i) {
    auto root = i;
    while (references[root]) root = *references[root];
    groups[root].push_back(i);
  }
  std::vector<std::vector<size_t>> out;
  for (auto& [root, members] : groups) out.push_back(std::move(members));
  return out;
}

}  // namespace shade::measure
