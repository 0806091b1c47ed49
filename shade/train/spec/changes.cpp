#include "shade/train/spec/changes.h"

#include <algorithm>
#include <cstdlib>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/hash/digest.h"

namespace shade::train {
namespace {

constexpr size_t kMostShown = 60;  // characters of a value

std::string shown(const Json& value) {
  const auto words = value.is_string() ? value.get<std::string>() : value.dump();
  if (words.empty()) return "(not set)";
  return words.size() <= kMostShown ? words : words.substr(0, kMostShown) + "...";
}

bool differs(const Json& before, const Json& now, const std::string& key) {
  return before.is_object() && now.is_object() && before.contains(key) && now.contains(key) && before[key] != now[key];
}

}  // namespace

Json settings_of(Json recipe, int ranks, const Json& identity_parts) {
  for (const auto& [section, field] : {std::pair("train", "output"),
                                       {"train", "resume_from"},
                                       {"train", "restart"},
                                       {"dp", "noise_seed"},
                                       {"dp", "data_ledger"}})
    recipe[section].erase(field);
  Json out{{"recipe", std::move(recipe)},
           {"ranks", ranks},
           {"threads", identity_parts.at("threads")},
           {"libtorch", identity_parts.at("libtorch")},
           {"digests", Json::object()}};
  if (const auto& job = identity_parts.at("job"); job.contains("mechanism")) out["mechanism"] = job["mechanism"];
  for (const auto& [name, key] : {std::pair("program", "program"),
                                  {"processor", "processor"},
                                  {"accelerator", "device"},
                                  {"environment variables of libraries", "variables"},
                                  {"first weights", "weights"}})
    out["digests"][name] = hash::to_hex(hash::digest_of(identity_parts.at(key).dump()));
  return out;
}

std::vector<std::string> changes(const Json& before, const Json& now) {
  std::vector<std::string> out;
  if (!before.is_object()) return out;
  const auto compare = [&](const std::string& name, const std::string& key, const Json& a, const Json& b) {
    if (differs(a, b, key)) out.push_back(text(name, " ", shown(a[key]), " -> ", shown(b[key])));
  };
  for (const auto& [section, fields] : now.at("recipe").items()) {
    if (!before.contains("recipe") || !before["recipe"].contains(section)) continue;
    for (const auto& [field, value] : fields.items())
      compare(text(section, ".", field), field, before["recipe"][section], fields);
  }
  for (const auto* key : {"ranks", "threads", "libtorch"}) compare(key, key, before, now);
  if (now.contains("mechanism"))  // versions before 2 don't state it
    compare("version of clipping and noise", "mechanism", {{"mechanism", before.value("mechanism", 1)}}, now);
  const bool resharded = std::any_of(out.begin(), out.end(), [](const std::string& change) {
    return change.starts_with("ranks ") || change.starts_with("shard.");
  });
  for (const auto& [name, digest] : now.at("digests").items())
    // Ranks that share weights otherwise know other parts of them.
    if (before.contains("digests") && differs(before["digests"], now["digests"], name) &&
        !(name == "first weights" && resharded))
      out.push_back(name);
  return out;
}

std::string data_change(const std::string& before, const std::string& now) {
  const auto count = [](const std::string& words) {
    return parse_integer(words.substr(0, words.find(' '))).value_or(0);
  };
  const auto more = count(now) - count(before);
  if (more == 0) return "data";
  const auto number = std::abs(more);
  return text("data: ", number, number == 1 ? " record " : " records ", more > 0 ? "more" : "fewer");
}

}  // namespace shade::train
