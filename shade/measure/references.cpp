#include "shade/measure/references.h"

#include <algorithm>
#include <map>
#include <set>

#include "shade/catalog/methods.h"

namespace shade::measure {
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
