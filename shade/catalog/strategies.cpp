#include "shade/catalog/strategies.h"

namespace shade::catalog {

std::span<const Name<Strategy>> names_of(Strategy) {
  static const auto kWords = names_in<StrategyInfo>(kStrategies);
  return kWords;
}

std::vector<Strategy> strategies_for(int ranks) {
  std::vector<Strategy> out;
  for (const auto& row : kStrategies)
    if (row.fits(ranks)) out.push_back(row.value);
  return out;
}

}  // namespace shade::catalog
