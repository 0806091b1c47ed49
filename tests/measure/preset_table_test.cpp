// docs/presets.md has every option of every preset, with the values of the program; what the document states is what
// --scale full runs.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "shade/base/strings.h"
#include "shade/measure/matrix.h"
#include "tests/support/process.h"

namespace shade::measure {
namespace {

constexpr const char* kDefault = "default";

struct Cells {
  std::string document, full, small;
};
using Key = std::pair<std::string, std::string>;  // preset, option

std::string trimmed(std::string_view cell) {
  auto word = std::string(trim(cell));
  if (word.size() > 1 && word.front() == '`' && word.find('`', 1) == word.size() - 1)
    word = word.substr(1, word.size() - 2);
  return word;
}

std::map<Key, Cells> table() {
  std::map<Key, Cells> out;
  std::ifstream in(test::source_root() + "/docs/presets.md");
  for (std::string line; std::getline(in, line);) {
    const auto cells = split(line, '|');
    if (cells.size() != 7 || cells[2].find("`--") == std::string::npos) continue;
    const Key key{trimmed(cells[1]), trimmed(cells[2])};
    EXPECT_TRUE(out.emplace(key, Cells{trimmed(cells[3]), trimmed(cells[4]), trimmed(cells[5])}).second)
        << line << " is there twice";
  }
  return out;
}

std::map<std::string, std::string> options(const std::string& preset, Scale scale) {
  std::map<std::string, std::string> out;
  const auto words = preset_arguments(preset, scale);
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    EXPECT_TRUE(out.emplace(words[i], words[i + 1]).second) << preset << ": " << words[i] << " is given twice";
  return out;
}

std::string value(const std::map<std::string, std::string>& of, const std::string& option) {
  const auto found = of.find(option);
  return found == of.end() ? kDefault : found->second;
}

TEST(PresetTable, IsWhatThePresetsAre) {
  auto rows = table();
  for (const auto& preset : presets()) {
    const auto full = options(preset.name, Scale::full), small = options(preset.name, Scale::small);
    auto either = full;
    either.insert(small.begin(), small.end());
    for (const auto& [option, unused] : either) {
      const auto row = rows.find({preset.name, option});
      ASSERT_NE(row, rows.end()) << preset.name << " " << option << " is not in docs/presets.md";
      EXPECT_EQ(row->second.full, value(full, option)) << preset.name << " " << option;
      EXPECT_EQ(row->second.small, value(small, option)) << preset.name << " " << option;
      rows.erase(row);
    }
  }
  for (const auto& [key, unused] : rows) ADD_FAILURE() << key.first << " has no option " << key.second;
}

TEST(PresetTable, FullIsWhatTheDocumentStates) {
  const auto rows = table();
  ASSERT_GT(rows.size(), 60u);
  for (const auto& [key, cells] : rows) {
    if (cells.document.starts_with("not stated")) continue;
    const auto stated = trimmed(cells.document.substr(0, cells.document.find(" (")));
    EXPECT_EQ(stated, cells.full) << key.first << " " << key.second;
  }
}

}  // namespace
}  // namespace shade::measure
