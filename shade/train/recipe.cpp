#include "shade/train/recipe.h"

#include "shade/base/strings.h"

namespace shade::train {

void Recipe::declare(Config& config) {
  config.add("model", model);
  config.add("model", sizes);
  config.add("data", data);
  config.add("shard", shard);
  config.add("optim", optim);
  config.add("dp", dp);
  config.add("dp", budget);
  config.add("train", train);
  config.add("comm", comm);
}

namespace {

// JSON and TOML write values alike, except for the one control character that JSON leaves as it is.
std::string toml_of(const Json& value) { return join(split(value.dump(), '\x7f'), "\\u007f"); }

// What follows from another field is a comment: both would be two words on one thing, which may be refused.
std::string follows(const Json& all, const std::string& name, const Json& value) {
  const auto& dp = all.at("dp");
  if (name == "sigma" && dp.at("target_epsilon") > 0.0) return "# found for target_epsilon: ";
  if (name == "micro_batch" && all.at("train").at("grad_accum") > 0) return "# from grad_accum: ";
  if (name == "grad_clip" && dp.at("dp") == "none" && dp.at("max_grad_norm") == value) return "# from max_grad_norm: ";
  return "";
}

}  // namespace

std::string print_toml(const Config& config) {
  std::string out;
  const auto json = config.json();
  for (const auto& [section, fields] : json.items()) {
    out += text(out.empty() ? "" : "\n", "[", section, "]\n");
    for (const auto& [name, value] : fields.items()) {
      if (name == "resume_from" || name == "restart") continue;  // of one start, not of the run
      out += text(follows(json, name, value), name, " = ", toml_of(value), "\n");
    }
  }
  return out;
}

}  // namespace shade::train
