#include "shade/data/classes.h"

#include <fstream>
#include <map>
#include <set>

#include "shade/base/error.h"
#include "shade/base/input_text.h"
#include "shade/base/strings.h"
#include "shade/io/untrusted_text.h"

namespace shade::data {
namespace {

std::vector<std::string> lines_of(const std::string& file) {
  require_readable(file);
  std::ifstream in(file, std::ios::binary);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (const auto name = trim(line); !name.empty()) out.emplace_back(name);
  SHADE_REQUIRE(!in.bad() && !out.empty(), "no classes in ", file, "; expected a file with a class per line");
  return out;
}

}  // namespace

std::vector<std::string> read_classes(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const bool file = words.size() == 1 && words[0].starts_with('@');
  auto classes = file ? lines_of(words[0].substr(1)) : words;
  SHADE_REQUIRE(classes.size() >= 2, "one class is stated (", io::quote(classes.front()),
                "); expected at least 2, e.g. --classes no,yes or --classes @FILE with a class per line");
  std::set<std::string> seen;
  for (const auto& name : classes)
    SHADE_REQUIRE(seen.insert(name).second, "class ", io::quote(name), " is stated twice");
  return classes;
}

std::vector<int64_t> number_labels(std::span<const std::string> labels, std::span<const std::string> classes) {
  std::map<std::string, int64_t, std::less<>> numbers;
  for (const auto& name : classes) numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  std::vector<int64_t> out;
  for (const auto& label : labels) {
    const auto found = numbers.find(label);
    SHADE_REQUIRE(found != numbers.end(), "the data has the label ", io::quote(label), ", which is none of the ",
                  classes.size(), " stated classes; correct the records, or state it too (--classes)");
    out.push_back(found->second);
  }
  return out;
}

}  // namespace shade::data
