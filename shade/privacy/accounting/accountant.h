// The accountants by name: what a run has spent.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "shade/base/names.h"
#include "shade/privacy/event.h"

namespace shade::privacy {

enum class Accountant { prv, rdp, gdp };
inline std::span<const Name<Accountant>> names_of(Accountant) {
  static constexpr Name<Accountant> kNames[] = {
      {"prv", Accountant::prv}, {"rdp", Accountant::rdp}, {"gdp", Accountant::gdp}};
  return kNames;
}

struct Spent {
  double epsilon = 0;
  double delta = 0;
  Accountant accountant = Accountant::prv;
  bool upper_bound = true;      // false: a diagnostic, nothing may be promised on it
  std::optional<double> order;  // rdp: the order that gave it
  std::string warning;          // empty, or what to know about this figure
};

Spent spent(Accountant accountant, std::span<const Steps> steps, double delta);

}  // namespace shade::privacy
