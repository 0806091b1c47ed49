#include "shade/base/strings.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "shade/base/error.h"
#include "shade/base/synonyms.h"

namespace shade {
namespace {

// Damerau-Levenshtein distance with adjacent swaps, the typo people make most.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

template <class Number>
std::optional<Number> parse_number(std::string_view word) {
  Number value{};
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (fault != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> split(std::string_view words, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = words.find(separator);
    parts.emplace_back(words.substr(0, at));
    if (at == std::string_view::npos) return parts;
    words.remove_prefix(at + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string joined;
  for (const auto& part : parts) {
    if (!joined.empty()) joined += separator;
    joined += part;
  }
  return joined;
}

std::string_view trim(std::string_view word) {
  const auto begin = word.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return word.substr(begin, word.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string dashed(std::string_view option) {
  std::string out(option);
  if (out.starts_with("--"))
    std::replace(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(std::min(out.find('='), out.size())), '_', '-');
  return out;
}

std::optional<int64_t> parse_integer(std::string_view word) { return parse_number<int64_t>(word); }
std::optional<double> parse_real(std::string_view word) { return parse_number<double>(word); }

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  // Dashes of an option say nothing about the word, and of three letters two are another word: --gpu is not --eps.
  const auto letters = word.size() - std::min(word.find_first_not_of('-'), word.size());
  size_t best_distance = (letters <= 3 ? 1 : std::max<size_t>(2, letters / 3)) + 1;
  for (const auto& candidate : candidates) {
    const auto distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = &candidate;
    }
  }
  if (best != nullptr) return *best;
  // The beginning of a name: --batch of --batch-size, the shortest of several.
  for (const auto& candidate : candidates)
    if (letters > 3 && candidate.starts_with(word) && candidate.find('.', word.size()) == std::string::npos &&
        (best == nullptr || candidate.size() < best->size()))
      best = &candidate;
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  if (auto known = synonym(word, candidates); !known.empty()) return known;
  const auto near = nearest(word, candidates);
  return near ? text("; did you mean '", *near, "'?") : "";
}

std::string ranges(std::span<const int> numbers) {
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last - i == 1) last = i;  // "3, 4" reads better than "3-4"
    if (!out.empty()) out += ", ";
    out += std::to_string(numbers[i]);
    if (last > i) out += text("-", numbers[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace shade
