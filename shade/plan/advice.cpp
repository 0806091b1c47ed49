#include "shade/plan/advice.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "shade/base/error.h"
#include "shade/plan/cost.h"

namespace shade::plan {
namespace {

constexpr int64_t kLargestBatch = 256;
constexpr double kWorthDoubling = 0.98;  // time or cost per sample of twice the batch, relative
constexpr double kAsFast = 1.02;
constexpr double kAlike = 0.99;  // a saving of less than 1 % is none

double share(Bytes of, Bytes whole) { return static_cast<double>(of.count) / static_cast<double>(whole.count); }

class Search {
 public:
  Search(const SearchSpace& space, const Estimator& estimate) : space_(space), estimate_(estimate) {}

  Advice run() {
    for (const auto& family : space_.families) try_family(family);
    for (const auto& resort : space_.last_resorts)
      if (!anything_fits())
        for (const auto& family : space_.families) try_family({family.edit.with(resort), family.batch});
    judge();
    refine();
    return std::move(out_);
  }

 private:
  bool fits(const Estimate& found) const { return found.refused.empty() && found.peak <= space_.limit; }
  bool anything_fits() const {
    return std::any_of(out_.tried.begin(), out_.tried.end(), [&](const Tried& one) { return fits(one.estimate); });
  }

  const Estimate& attempt(Candidate candidate) {
    auto found = estimate_(candidate);
    out_.tried.push_back({.candidate = std::move(candidate), .estimate = std::move(found)});
    return out_.tried.back().estimate;
  }

  void try_family(const Family& family) {
    if (std::any_of(out_.tried.begin(), out_.tried.end(), [&](const Tried& one) {
          return one.candidate.edit == family.edit && one.candidate.batch == family.batch.value_or(1);
        }))
      return;
    if (family.batch) {
      attempt({family.edit, *family.batch});
      return;
    }
    Estimate before;
    for (int64_t batch = 1; batch <= kLargestBatch; batch *= 2) {
      const auto& found = attempt({family.edit, batch});
      const bool pays = found.time < kWorthDoubling * before.time || found.cost < kWorthDoubling * before.cost;
      if (!fits(found) || (batch > 1 && !pays) || is_beaten(out_.tried.back())) return;
      before = found;
    }
  }

  // By another family with the same batch, beyond doubt.
  bool is_beaten(const Tried& one) const {
    return std::any_of(out_.tried.begin(), out_.tried.end(), [&](const Tried& other) {
      const auto &a = other.estimate, &b = one.estimate;
      return other.candidate.batch == one.candidate.batch && fits(a) && a.time < kWorthDoubling * b.time &&
             a.peak <= b.peak && a.cost <= b.cost;
    });
  }

  void refine() {
    const auto best = out_.front;
    for (const auto index : best)
      for (const auto& refinement : space_.refinements) {
        const auto [edit, batch] = out_.tried[index].candidate;
        attempt({edit.with(refinement), batch});
      }
    if (!best.empty() && !space_.refinements.empty()) judge();
  }

  // Fastest first; of equals the leaner, the cheaper, the one that was tried first.
  std::vector<size_t> by_time() const {
    std::vector<size_t> order(out_.tried.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t i) { return !fits(out_.tried[i].estimate); });
    const auto key = [&](size_t i) {
      const auto& found = out_.tried[i].estimate;
      return std::tuple(found.time, found.peak.count, found.cost, i);
    };
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    return order;
  }

  void judge() {
    for (auto& one : out_.tried) one.verdict = one.estimate.refused.empty() ? Verdict::over : Verdict::refused;
    out_.front.clear();
    for (const auto index : by_time()) {
      auto& one = out_.tried[index];
      const auto better = std::find_if(out_.front.begin(), out_.front.end(), [&](size_t faster) {
        const auto& other = out_.tried[faster].estimate;
        return static_cast<double>(one.estimate.peak.count) >= kAlike * static_cast<double>(other.peak.count) &&
               one.estimate.cost >= kAlike * other.cost;
      });
      one.verdict = better == out_.front.end() ? Verdict::front : Verdict::slower;
      if (better == out_.front.end())
        out_.front.push_back(index);
      else
        one.beaten_by = *better;
    }
  }

  const SearchSpace& space_;
  const Estimator& estimate_;
  Advice out_;
};

std::string share_text(double share) { return text(significant(100 * share, 2), " %"); }

}  // namespace

size_t Advice::recommended() const {
  SHADE_CHECK(!front.empty(), "nothing fits");
  const double fastest = tried[front.front()].estimate.time;
  size_t out = front.front();
  for (const auto index : front)
    if (tried[index].estimate.time <= kAsFast * fastest && tried[index].estimate.cost < tried[out].estimate.cost)
      out = index;
  return out;
}

Edit Edit::with(const Edit& more) const {
  Edit out = *this;
  const auto take = [](auto& into, const auto& value) {
    if (value) into = value;
  };
  take(out.dp, more.dp);
  take(out.shard, more.shard);
  take(out.checkpointing, more.checkpointing);
  take(out.replicate, more.replicate);
  take(out.wrap, more.wrap);
  take(out.offload, more.offload);
  take(out.seq_length, more.seq_length);
  return out;
}

Advice advise(const SearchSpace& space, const Estimator& estimate) {
  SHADE_REQUIRE(space.limit.count > 0, "advice needs a memory limit above 0");
  return Search(space, estimate).run();
}

std::string reason(const Advice& advice, const Tried& tried, Bytes limit, const ReasonWords& words) {
  const auto& found = tried.estimate;
  switch (tried.verdict) {
    case Verdict::front: return {};
    case Verdict::refused: return found.refused;
    case Verdict::over:
      return text(to_string(found.peak), ": over the limit by ", to_string(found.peak - limit), "; ", found.blame);
    case Verdict::slower: break;
  }
  const auto& winner = advice.tried[tried.beaten_by];
  const auto& best = winner.estimate;
  const double slower = found.time / best.time - 1, more = share(found.peak, best.peak) - 1;
  const auto time = slower < 0.005 ? words.alike : text(share_text(slower), " ", words.slower);
  const auto memory =
      more < 0.01 ? std::string("no leaner") : text("needs ", to_string(found.peak - best.peak), " more");
  return text(time, " ", words.name(winner.candidate), ", and ", memory);
}

int64_t largest_that_fits(int64_t known, int64_t step, int64_t most, const std::function<bool(int64_t)>& fits) {
  int64_t low = known, high = known;
  while (low < most) {
    high = std::min(2 * low, most);
    if (!fits(high)) break;
    low = high;
  }
  if (low >= most) return low;
  while (high - low > step) {
    const int64_t middle = (low + (high - low) / 2) / step * step;
    if (middle <= low) break;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

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
