// What a result is made of beside its figures: amounts by name, what its peak belongs to, and one step on an axis of
// time. shade bench and shade plan write them; shade report and shade scan read them. No other place knows their keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/memory_scope.h"
#include "shade/base/span.h"

namespace shade::catalog {

using Amounts = std::vector<std::pair<std::string, double>>;        // in the order of the file
double amount_of(const Amounts& amounts, const std::string& name);  // 0: it isn't there

// Of a step; those of memory by MemoryKind, those of time by SpanName.
struct Parts {
  Amounts breakdown_mb, highest_mb;  // at the peak; each kind at its own highest moment
  Amounts phases_ms, own_ms;         // they nest; without nested ones, and with `other` they add up
  Amounts waits_ms;                  // for other ranks, by phase
  Amounts norms_ms;                  // the phase `norm`, by the weight's name
};

struct PartInfo {
  std::string_view key;
  Amounts Parts::* member;
};

inline constexpr PartInfo kParts[] = {
    {"breakdown", &Parts::breakdown_mb}, {"breakdown_max", &Parts::highest_mb}, {"phases_ms", &Parts::phases_ms},
    {"own_ms", &Parts::own_ms},          {"waits_ms", &Parts::waits_ms},        {"norms_ms", &Parts::norms_ms},
};

void write_parts(Json& to, const Parts& parts);  // those that are not empty
void read_parts(Parts& to, const Json& from);    // throws Error that names the key

// What made the peak: its largest part is the last allocation before it.
struct PeakOwner {
  SpanName phase = SpanName::other, within = SpanName::other;  // outermost; innermost, if it is another
  std::string unit, layer;                                     // of the model; the weight of a norm
  MemoryKind kind = MemoryKind::other;
  Bytes bytes;

  std::string describe() const;  // "12.0 MiB of activations in forward, unit layers.3"
  Json json() const;
};

// The course of memory in a step: MiB of each kind at moments since its begin.
struct Course {
  std::vector<double> ms;
  std::vector<std::pair<std::string, std::vector<double>>> kinds_mb;
};

struct Timeline {
  struct Span {
    std::string name, of;  // `of`: the unit or weight; empty: none
    double from_ms = 0, to_ms = 0;
  };
  struct Collective {
    std::string name, label, stream;  // `stream`: the link that a plan put it on; empty: it was measured
    double from_ms = 0, to_ms = 0, waited_ms = 0, mb = 0;
  };
  double step_ms = 0;
  std::vector<Span> spans;
  std::vector<Collective> collectives;
  Course memory;

  Json json() const;
};

// Empty: the result has none. Throws Error that names the key.
std::optional<Timeline> timeline_in(const Json& result);

}  // namespace shade::catalog
