#include "shade/train/saved.h"

#include "shade/base/error.h"

namespace shade::train {
namespace {

Json or_null(const std::optional<std::string>& words) { return words ? Json(*words) : Json(); }

std::optional<std::string> words_in(const Json& json) {
  return json.is_string() ? std::optional(json.get<std::string>()) : std::nullopt;
}

}  // namespace

Json Saved::json() const {
  Json out{{"identity", or_null(identity)},
           {"data", or_null(data)},
           {"micro_batch", micro_batch},
           {"settings", settings},
           {"began", began}};
  if (is_private) {
    out["origin"] = origin ? origin->json() : Json();
    out["clip_norm"] = clip_norm;
    if (noise_variance) out["noise_variance"] = *noise_variance;
  }
  return out;
}

// 0.1.0 wrote identity, micro_batch and, in private runs, origin and clip_norm.
Saved Saved::from_json(const Json& json) {
  const auto require = [&](const char* key, bool kind) {
    SHADE_REQUIRE(json.is_object() && json.contains(key) && kind, "the checkpoint has no valid '", key,
                  "', which shade train has written since 0.1.0; it was saved by another program or another version");
  };
  const auto number = [&](const char* key) { return json.is_object() && json.contains(key) && json[key].is_number(); };
  require("identity", true);
  require("micro_batch", number("micro_batch") && json["micro_batch"].is_number_integer() && json["micro_batch"] > 0);
  Saved out{.identity = words_in(json["identity"]),
            .data = {},
            .micro_batch = json["micro_batch"],
            .settings = {},
            .began = {},
            .is_private = json.contains("origin"),
            .origin = {}};
  if (json.contains("data")) out.data = words_in(json["data"]);
  if (json.contains("settings")) out.settings = json["settings"];
  if (json.contains("began")) out.began = words_in(json["began"]).value_or("");
  if (!out.is_private) return out;
  if (!json["origin"].is_null()) out.origin = checkpoint::Origin::from_json(json["origin"]);
  require("clip_norm", number("clip_norm"));
  out.clip_norm = json["clip_norm"];
  if (json.contains("noise_variance")) {
    require("noise_variance", number("noise_variance") && json["noise_variance"] >= 0);
    out.noise_variance = json["noise_variance"];
  }
  return out;
}

}  // namespace shade::train
