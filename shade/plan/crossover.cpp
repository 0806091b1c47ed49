#include "shade/plan/crossover.h"

#include <algorithm>
#include <cmath>

#include "shade/plan/collective_time.h"

namespace shade::plan {
namespace {

constexpr double kLowest = 1.0 / 64, kHighest = 16;
constexpr int kPoints = 41;     // four for each doubling
constexpr int kBisections = 8;  // of the range between two points: to 0.1 %

bool uses_network(const Contender& contender, const DeviceProfile& device) {
  const auto& events = contender.record.events;
  return std::any_of(events.begin(), events.end(), [&](const StepEvent& event) {
    const auto& of = event.collective;
    return event.kind == EventKind::collective && !of.host &&
           group_shape(of.ranks, of.stride, device.ranks_per_node).nodes > 1;
  });
}

class Race {
 public:
  Race(const std::vector<Contender>& contenders, const DeviceProfile& device, const TimeOptions& options, bool network)
      : contenders_(contenders), device_(device), options_(options), network_(network) {}

  size_t fastest(double factor) const {
    auto device = device_;
    auto& link = network_ ? device.network : device.inside;
    link.reachable *= factor;
    link.spec *= factor;
    std::vector<double> times;
    for (const auto& one : contenders_)
      times.push_back(predict_time(one.record, device, options_).step.count() /
                      static_cast<double>(std::max<int64_t>(1, one.record.samples)));
    return static_cast<size_t>(std::min_element(times.begin(), times.end()) - times.begin());
  }

  // Where `low`'s fastest stops being that: between the two.
  double boundary(double low, double high) const {
    const auto before = fastest(low);
    for (int i = 0; i < kBisections; ++i) {
      const double middle = std::sqrt(low * high);
      (fastest(middle) == before ? low : high) = middle;
    }
    return std::sqrt(low * high);
  }

 private:
  const std::vector<Contender>& contenders_;
  const DeviceProfile& device_;
  const TimeOptions& options_;
  bool network_;
};

}  // namespace

Crossovers crossovers(const std::vector<Contender>& contenders, const DeviceProfile& device,
                      const TimeOptions& options) {
  Crossovers out;
  out.network = std::any_of(contenders.begin(), contenders.end(),
                            [&](const Contender& one) { return uses_network(one, device); });
  out.present = (out.network ? device.network : device.inside).reachable;
  if (contenders.empty() || out.present <= 0 || !device.collectives.empty()) return out;
  const Race race(contenders, device, options, out.network);
  double factor = kLowest;
  auto fastest = race.fastest(factor);
  out.ranges.push_back({contenders[fastest].name, factor * out.present, kHighest * out.present});
  for (int i = 1; i < kPoints; ++i) {
    const double next = kLowest * std::pow(kHighest / kLowest, static_cast<double>(i) / (kPoints - 1));
    if (const auto now = race.fastest(next); now != fastest) {
      const double at = race.boundary(factor, next) * out.present;
      out.ranges.back().to = at;
      out.ranges.push_back({contenders[now].name, at, kHighest * out.present});
      fastest = now;
    }
    factor = next;
  }
  return out;
}

}  // namespace shade::plan
