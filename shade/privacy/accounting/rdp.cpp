#include "shade/privacy/accounting/rdp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shade/base/error.h"
#include "shade/privacy/accounting/branch.h"
#include "shade/privacy/accounting/log_sum.h"
#include "shade/privacy/accounting/moment.h"

namespace shade::privacy {
namespace {

double renyi(std::span<const Branch> of_step, double sigma, double order) {
  LogSum excess;  // of the moment over 1: branches add
  for (const auto& branch : of_step)
    excess.add(std::log(branch.probability) + log_excess(branch.rate, sigma / branch.shift, order));
  return log1p_exp(excess.log()) / (order - 1);
}

}  // namespace

std::vector<double> default_orders() {
  std::vector<double> orders{1.01, 1.02, 1.05};
  for (int tenths = 11; tenths < 110; ++tenths) orders.push_back(tenths / 10.0);
  for (int order = 11; order < 64; ++order) orders.push_back(order);
  for (double order : {64, 72, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 768, 1024}) orders.push_back(order);
  return orders;
}

double renyi(const Mechanism& mechanism, double order) {
  SHADE_REQUIRE(std::isfinite(order) && order > 1, "Renyi order ", order, " is out of range; expected above 1");
  return renyi(branches(mechanism), mechanism.noise_multiplier, order);
}

RdpEpsilon rdp_to_epsilon(std::span<const double> orders, std::span<const double> divergences, double delta) {
  require_delta(delta);
  SHADE_REQUIRE(!orders.empty() && orders.size() == divergences.size(), "expected a divergence for each order, found ",
                divergences.size(), " for ", orders.size());
  RdpEpsilon best{.epsilon = std::numeric_limits<double>::infinity()};
  size_t at = 0;
  for (size_t i = 0; i < orders.size(); ++i) {
    const double a = orders[i];
    const double epsilon = divergences[i] + std::log1p(-1 / a) - (std::log(delta) + std::log(a)) / (a - 1);
    if (epsilon >= best.epsilon) continue;
    best = {.epsilon = epsilon, .order = a};
    at = i;
  }
  SHADE_REQUIRE(std::isfinite(best.epsilon), "no Renyi order gives a finite epsilon at delta ", delta,
                "; the noise is too small for this accountant");
  best.at_grid_end = best.epsilon > 0 && (at == 0 || at + 1 == orders.size());
  best.epsilon = std::max(0.0, best.epsilon);
  return best;
}

RdpEpsilon rdp_epsilon(std::span<const Steps> steps, double delta, std::span<const double> orders) {
  const auto grid = orders.empty() ? default_orders() : std::vector<double>(orders.begin(), orders.end());
  const auto run = checked(steps);
  require_delta(delta);
  if (run.empty()) return {};
  std::vector<double> total(grid.size(), 0.0);
  for (const auto& [mechanism, count] : run) {
    const auto of_step = branches(mechanism);
    for (size_t i = 0; i < grid.size(); ++i)
      total[i] += static_cast<double>(count) * renyi(of_step, mechanism.noise_multiplier, grid[i]);
  }
  return rdp_to_epsilon(grid, total, delta);
}

}  // namespace shade::privacy
