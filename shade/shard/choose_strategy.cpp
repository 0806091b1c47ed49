#include "shade/shard/choose_strategy.h"

#include "shade/base/error.h"
#include "shade/catalog/methods.h"

namespace shade::shard {

std::string choose_strategy(ShardConfig& shard, const Given& given, int ranks) {
  constexpr Bytes kLeastSegment = KiB(4);  // that of --comm.segment; smaller ones cost a message for a few bytes
  SHADE_REQUIRE(shard.segment.count == 0 || shard.segment >= kLeastSegment, "--segment-bytes ", shard.segment.count,
                " is out of range; expected at least ", kLeastSegment.count, ", or 0 for the default");
  if (given("shard.shard")) return {};
  const auto method = given.word("dp.dp");
  const bool named = std::any_of(std::begin(catalog::kMethods), std::end(catalog::kMethods),
                                 [&](const auto& row) { return !row.fsdp.empty() && row.fsdp == method; });
  if (!named && ranks == 1) return {};
  SHADE_REQUIRE(!given("shard.replicate"), "--replicate is for --shard hsdp, and no --shard was given; add it");
  shard.shard = Strategy::zero3;
  return text("zero3: ", named ? text(method, " is sharded fully") : text("there are ", ranks, " ranks"),
              ", and --shard was not given");
}

}  // namespace shade::shard
