// The sharding strategies: a row for each with its words, its colour, its peer and the worlds it is verified on. What a
// strategy does is policy_of() in shard/config.cpp.
#pragma once

#include <array>
#include <limits>

#include "shade/catalog/row.h"

namespace shade::catalog {

// In the order in which reports show them.
enum class Strategy { none, ddp, zero2, zero3, hsdp };

struct StrategyInfo {
  Strategy value;
  std::string_view name, colour;
  std::array<std::string_view, 2> others = {};
  std::string_view peer = {};  // PyTorch's, for bench/peers; empty: there is none
  bool sharded = false;        // a rank keeps a part of the weights
  // Worlds in which it differs from the other rows.
  int min_ranks = 1, max_ranks = std::numeric_limits<int>::max(), multiple_of = 1;

  constexpr std::array<std::string_view, 2> aliases() const { return others; }
  constexpr bool fits(int ranks) const { return ranks >= min_ranks && ranks <= max_ranks && ranks % multiple_of == 0; }
};

inline constexpr StrategyInfo kStrategies[] = {
    {.value = Strategy::none, .name = "none", .colour = "#7d8799", .max_ranks = 1},
    {.value = Strategy::ddp, .name = "ddp", .colour = "#1f77c9", .peer = "ddp"},
    {.value = Strategy::zero2,
     .name = "zero2",
     .colour = "#e69f00",
     .others = {"SHARD_GRAD_OP"},
     .peer = "fsdp2_keep",
     .sharded = true},
    {.value = Strategy::zero3,
     .name = "zero3",
     .colour = "#009e73",
     .others = {"fsdp", "FULL_SHARD"},
     .peer = "fsdp2_reshard",
     .sharded = true},
    {.value = Strategy::hsdp, .name = "hsdp", .colour = "#cc5fa5", .sharded = true, .min_ranks = 4, .multiple_of = 2},
};
static_assert(in_order(kStrategies));

std::span<const Name<Strategy>> names_of(Strategy);
std::vector<Strategy> strategies_for(int ranks);  // those that fit: what must be verified

}  // namespace shade::catalog
