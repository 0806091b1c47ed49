#include "shade/accounting/filter.h"

#include <algorithm>
#include <cmath>

#include "shade/accounting/rdp.h"
#include "shade/base/error.h"

namespace shade::privacy {
namespace {

constexpr double kMainShare = 0.8;
constexpr int kAround = 4;  // orders on either side of the main one, a factor of sqrt(2) in order - 1 apart

// What a divergence of 0 converts to: the part of epsilon that the order costs in any case.
double overhead(const FilterOrder& of, double delta) {
  return std::log1p(-1 / of.order) - (std::log(delta * of.share) + std::log(of.order)) / (of.order - 1);
}

double room(const Cap& cap, const FilterOrder& of) { return cap.epsilon - overhead(of, cap.delta); }

}  // namespace

void Cap::require_valid() const {
  SHADE_REQUIRE(std::isfinite(epsilon) && epsilon > 0, "epsilon ", epsilon, " is no cap; expected above 0");
  require_delta(delta);
}

std::vector<FilterOrder> filter_orders(const Cap& cap, const Mechanism& first) {
  cap.require_valid();
  double main = 0, most = 0;
  for (double a = 1.01; a < 1024; a = 1 + (a - 1) * 1.05) {
    const double steps = room(cap, {a, kMainShare}) / renyi(first, a);
    if (steps > most) most = steps, main = a;
    if (most > 0 && steps < most / 4) break;  // divergences grow with the order: it only gets worse, and costs time
  }
  // No order has room for any step of this kind: the first run is refused whatever they are.
  if (main == 0) main = 1 + std::max(0.05, std::log(1 / cap.delta) / cap.epsilon);
  std::vector<FilterOrder> out;
  for (int k = -kAround; k <= kAround; ++k)
    out.push_back({1 + (main - 1) * std::pow(2, 0.5 * k), k == 0 ? kMainShare : (1 - kMainShare) / (2 * kAround)});
  return out;
}

RenyiFilter::RenyiFilter(const Cap& cap, std::vector<FilterOrder> orders)
    : cap_(cap), orders_(std::move(orders)), spent_(orders_.size(), 0.0) {
  cap_.require_valid();
  double shares = 0;
  for (const auto& [order, share] : orders_) {
    SHADE_REQUIRE(std::isfinite(order) && order > 1 && share > 0 && share <= 1, "a share ", share,
                  " of delta for order ", order, "; expected an order above 1 and a share of (0, 1]");
    shares += share;
  }
  SHADE_REQUIRE(!orders_.empty() && shares <= 1 + 1e-12, "the shares of ", orders_.size(), " orders sum to ", shares,
                "; expected at most 1");
}

void RenyiFilter::take(const Steps& steps) {
  if (steps.count == 0) return;
  for (size_t i = 0; i < orders_.size(); ++i)
    spent_[i] += static_cast<double>(steps.count) * renyi(steps.mechanism, orders_[i].order);
}

int64_t RenyiFilter::allowed(const Mechanism& mechanism, int64_t wanted) const {
  int64_t most = 0;
  for (size_t i = 0; i < orders_.size(); ++i) {
    const double left = room(cap_, orders_[i]) - spent_[i], each = renyi(mechanism, orders_[i].order);
    if (!(left > 0) || !(each >= 0)) continue;  // not a number: no room
    // floor() of a quotient may be one too many for the sum; what is allowed is what adds up.
    auto steps = static_cast<int64_t>(std::min(std::floor(left / each), static_cast<double>(wanted)));
    while (steps > 0 && spent_[i] + static_cast<double>(steps) * each > room(cap_, orders_[i])) --steps;
    most = std::max(most, steps);
  }
  return most;
}

double RenyiFilter::position() const {
  if (std::all_of(spent_.begin(), spent_.end(), [](double spent) { return spent <= 0; })) return 0;
  double least = INFINITY;
  for (size_t i = 0; i < orders_.size(); ++i) least = std::min(least, spent_[i] + overhead(orders_[i], cap_.delta));
  return std::max(0.0, least);
}

}  // namespace shade::privacy
