#include "shade/accounting/events.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::privacy {
namespace {

const std::vector<std::string> kKeys{"sigma",      "sample_rate", "steps",   "sampler", "max_batch",
                                     "population", "unit",        "unit_by", "run"};

double number(const Json& event, const std::string& key) {
  SHADE_REQUIRE(event.contains(key) && event[key].is_number(), "expected a number '", key, "', found ",
                event.contains(key) ? event[key].dump() : "none");
  return event[key].get<double>();
}

int64_t count(const Json& event, const std::string& key) {
  SHADE_REQUIRE(event.contains(key) && event[key].is_number_integer() && event[key] >= 0 && event[key] <= INT64_MAX,
                "expected a whole number '", key, "' of at least 0, found ",
                event.contains(key) ? event[key].dump() : "none");
  return event[key].get<int64_t>();
}

std::string word(const Json& event, const std::string& key) {
  if (!event.contains(key)) return {};
  SHADE_REQUIRE(event[key].is_string(), "expected a text '", key, "', found ", event[key].dump());
  return event[key].get<std::string>();
}

Event event_in(const Json& event) {
  SHADE_REQUIRE(event.is_object(), "expected an object with sigma, sample_rate and steps, found ",
                event.dump().substr(0, 100));
  for (const auto& [key, value] : event.items())
    SHADE_REQUIRE(std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end(), "the key '", key,
                  "' is unknown; expected some of ", join(kKeys, ", "), suggestion(key, kKeys));
  Event out{.steps = {mechanism_from(event), count(event, "steps")},
            .unit = {},
            .unit_by = word(event, "unit_by"),
            .run = word(event, "run")};
  if (const auto unit = word(event, "unit"); !unit.empty()) out.unit = parse_name<PrivacyUnit>(unit);
  (void)checked({&out.steps, 1});
  return out;
}

}  // namespace

Json mechanism_json(const Mechanism& mechanism) {
  Json out{{"sampler", to_string(mechanism.sampler)},
           {"sample_rate", mechanism.sample_rate},
           {"sigma", mechanism.noise_multiplier}};
  if (mechanism.sampler == Sampler::truncated_poisson) {
    out["max_batch"] = mechanism.max_batch;
    out["population"] = mechanism.population;
  }
  return out;
}

Mechanism mechanism_from(const Json& event) {
  const auto sampler = word(event, "sampler");
  Mechanism out{.sampler = sampler.empty() ? Sampler::poisson : parse_name<Sampler>(sampler),
                .sample_rate = number(event, "sample_rate"),
                .noise_multiplier = number(event, "sigma")};
  if (event.contains("max_batch")) out.max_batch = count(event, "max_batch");
  if (event.contains("population")) out.population = count(event, "population");
  return out;
}

std::vector<Steps> EventList::steps() const {
  std::vector<Steps> out;
  for (const auto& event : events) out.push_back(event.steps);
  return out;
}

std::optional<PrivacyUnit> EventList::unit() const {
  for (const auto& event : events)
    if (event.unit) return event.unit;
  return std::nullopt;
}

EventList events_in(const Json& json) {
  const bool whole = json.is_object();
  SHADE_REQUIRE(
      json.is_array() || (whole && json.contains("events") && json["events"].is_array()),
      "expected a list of events, [{\"sigma\": 1.1, \"sample_rate\": 0.01, \"steps\": 500}, ...], or an object ",
      "with such a list as 'events'");
  EventList out;
  if (whole && json.contains("delta")) out.delta = number(json, "delta");
  const auto unit = whole ? word(json, "unit") : "", unit_by = whole ? word(json, "unit_by") : "";
  const Event* first = nullptr;
  for (const auto& entry : whole ? json["events"] : json) {
    auto& event = out.events.emplace_back();
    try {
      event = event_in(entry);
      if (!event.unit && !unit.empty()) event.unit = parse_name<PrivacyUnit>(unit);
      if (event.unit && event.unit_by.empty()) event.unit_by = unit_by;
    } catch (const UsageError& fault) {
      throw UsageError(text("event ", out.events.size(), ": ", fault.what()));
    }
  }
  const bool stated = out.unit().has_value();
  for (const auto& event : out.events) {
    SHADE_REQUIRE(event.unit || !stated, "event ", &event - out.events.data() + 1,
                  " does not say what it protects, and others do; add its 'unit'");
    if (!event.unit) continue;
    if (first == nullptr) first = &event;
    SHADE_REQUIRE(event.unit == first->unit && event.unit_by == first->unit_by, "event ",
                  &event - out.events.data() + 1, " protects one ", to_string(*event.unit),
                  event.unit_by.empty() ? "" : " by '" + event.unit_by + "'", ", and an event before it one ",
                  to_string(*first->unit), first->unit_by.empty() ? "" : " by '" + first->unit_by + "'",
                  ": their epsilons don't add up to that of either; account for them apart");
  }
  return out;
}

}  // namespace shade::privacy
