#include "shade/data/unused_fields.h"

#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace shade::data {
namespace {

constexpr std::string_view kPersonWords[] = {"account",  "author", "client",    "contributor", "customer",   "email",
                                             "employee", "device", "household", "member",      "maintainer", "owner",
                                             "patient",  "person", "phone",     "respondent",  "sender",     "speaker",
                                             "student",  "user",   "username"};

bool is_user_word(std::string_view word) {
  if (word.ends_with('s')) word.remove_suffix(1);
  return std::find(std::begin(kPersonWords), std::end(kPersonWords), word) != std::end(kPersonWords);
}

}  // namespace

bool is_called_like_a_user(std::string_view name) {
  std::string word;
  bool found = false, after_small = false;
  for (const char c : std::string(name) + ' ') {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = std::isalpha(byte) != 0, capital = std::isupper(byte) != 0;
    if (!letter || (capital && after_small)) found |= is_user_word(std::exchange(word, {}));
    if (letter) word += static_cast<char>(std::tolower(byte));
    after_small = letter && !capital;
  }
  return found;
}

bool UnusedField::may_be_a_user() const {
  constexpr int64_t kFewValues = 20, kManyRows = 50;  // of one value: a class rather than a person
  const bool shared = 10 * values < 9 * rows;
  return is_called_like_a_user(name) || (shared && values >= kFewValues && rows <= values * kManyRows);
}

std::vector<UnusedField> find_unused_fields(std::span<const TextFile> files, const RecordOptions& options,
                                            int64_t rows) {
  std::vector<std::string> order;
  std::map<std::string, std::pair<int64_t, std::set<std::string>>> seen;
  std::optional<RecordFields> fields;
  for (const auto& file : files) {
    if (rows == 0) break;
    const auto reader = open_rows(file, options.unit, /*wanted=*/{});
    for (auto* row = rows > 0 ? reader->next() : nullptr; row != nullptr; row = --rows > 0 ? reader->next() : nullptr) {
      if (!fields) fields.emplace(options.fields, *row);
      for (const auto& cell : row->cells) {
        const auto [found, is_new] = seen.try_emplace(cell.name);
        if (is_new) order.push_back(cell.name);
        if (cell.kind != CellKind::string && cell.kind != CellKind::integer) continue;
        ++found->second.first;
        found->second.second.insert(cell.text.substr(0, 200));
      }
    }
  }
  std::vector<UnusedField> out;
  const auto used = fields ? fields->names() : std::vector<std::string>{};
  for (const auto& name : order)
    if (std::find(used.begin(), used.end(), name) == used.end())
      out.push_back({name, seen[name].first, static_cast<int64_t>(seen[name].second.size())});
  return out;
}

}  // namespace shade::data
