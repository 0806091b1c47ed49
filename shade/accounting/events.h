// Steps of several kinds in a file: what `shade account --events` reads and `shade ledger --json` writes.
//
//   [{"sigma": 1.1, "sample_rate": 0.01, "steps": 500}, {"sigma": 2, "sample_rate": 0.1, "steps": 20}]
//   {"delta": 1e-6, "unit": "record", "events": [...], ...}
//
// An event has sigma, sample_rate and steps; sampler, max_batch and population where it isn't plain Poisson sampling;
// and may say what it protects (unit, unit_by) and which run it is of (run).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shade/accounting/event.h"
#include "shade/base/json.h"

namespace shade::privacy {

struct Event {
  Steps steps;
  std::optional<PrivacyUnit> unit;
  std::string unit_by;  // of users: the field that names them
  std::string run;      // whose it is, for people
};

struct EventList {
  std::vector<Event> events;
  std::optional<double> delta;

  std::vector<Steps> steps() const;
  std::optional<PrivacyUnit> unit() const;  // of all events; none: no event says
};

// Keys of a list's object beside `delta`, `unit` and `events` are not looked at; those of an event are, so that a
// misspelt one is not taken for its default. Throws UsageError naming the event: also for events that protect different
// units.
EventList events_in(const Json& json);

// What an accountant needs to know of a mechanism, by the keys above; and back.
Json mechanism_json(const Mechanism& mechanism);
Mechanism mechanism_from(const Json& event);

}  // namespace shade::privacy
