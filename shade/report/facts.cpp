#include "shade/report/facts.h"

#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::report {
namespace {

std::set<std::string> distinct_values(const std::vector<Settings>& environments, const std::string& key) {
  std::set<std::string> out;
  for (const auto& environment : environments)
    if (const auto found = environment.find(key); found != environment.end()) out.insert(found->second);
  return out;
}

// Rows of one run say the same; of a folder that was filled by hand, the first few are shown.
std::string listed(const std::set<std::string>& values, const std::string& before = "", const std::string& after = "") {
  constexpr size_t kShown = 3;
  std::vector<std::string> words;
  for (const auto& value : values)
    if (words.size() < kShown) words.push_back(before + value + after);
  const auto rest = values.size() - words.size();
  return join(words, "; ") + (rest > 0 ? text("; and ", rest, " more") : "");
}

}  // namespace

Json facts_of(const std::vector<Settings>& environments) {
  auto out = Json::array();
  const auto add = [&](const char* about, const std::string& words) {
    if (!words.empty()) out.push_back({{"about", about}, {"text", words}});
  };
  const auto dates = distinct_values(environments, "date");  // in ISO 8601 their order is that of time
  if (!dates.empty()) add("date", dates.size() == 1 ? *dates.begin() : text(*dates.begin(), " to ", *dates.rbegin()));
  add("host", listed(distinct_values(environments, "host")));
  add("processor", listed(distinct_values(environments, "cpu")));
  add("cores", listed(distinct_values(environments, "cores")));
  add("command", listed(distinct_values(environments, "command")));
  std::vector<std::string> versions;
  for (const auto* name : {"shade", "commit", "libtorch"})
    if (const auto found = distinct_values(environments, name); !found.empty())
      versions.push_back(listed(found, text(name, " ")));
  add("versions", join(versions, ", "));
  return out;
}

}  // namespace shade::report
