#include "shade/shard/config.h"

namespace shade::shard {

void ShardConfig::declare(Fields& f) {
  f.add("shard", shard, {.help = "strategy", .flags = {"--shard", "--data-parallel"}});
  f.add("replicate", replicate, {.help = "hsdp: how many copies of the model", .min = 1, .flags = {"--replicate"}});
  f.add("wrap", wrap, {.help = "what is gathered together", .flags = {"--wrap", "--auto-wrap-policy"}});
  f.add("min_num_params", min_num_params,
        {.help = "wrap size: a unit has at least so many", .min = 1, .flags = {"--min-num-params"}});
  f.add("segment", segment, {.help = "a unit larger than this is moved in parts", .flags = {"--segment-bytes"}});
  f.add("forward_prefetch", forward_prefetch,
        {.help = "gather the next unit while this one computes", .flags = {"--forward-prefetch"}});
  f.add("backward_prefetch", backward_prefetch,
        {.help = "the same in backward: before this unit's computation, after it, or not at all",
         .flags = {"--backward-prefetch"}});
  f.add("in_flight", in_flight,
        {.help = "bytes of gradients on their way; one unit always may be, and one gather ahead. 0: nothing overlaps",
         .flags = {"--in-flight"}});
  f.add("reduce_once", reduce_once,
        {.help = "keep whole gradients over micro-steps and reduce once (more memory, less traffic)",
         .flags = {"--reduce-once"}});
  f.add("reduce_dtype", reduce_dtype, {.help = "of gradients on the wire", .flags = {"--reduce-dtype"}});
  f.add("offload", offload,
        {.help = "shards and optimizer state in a mapped file (CPU) or in host memory (CUDA)",
         .flags = {"--offload", "--cpu-offload"}});
  f.add("offload_folder", offload_folder,
        {.help = "where that file is made; empty: the system's temporary folder", .flags = {"--offload-folder"}});
}

Policy policy_of(const ShardConfig& config, int world_size) {
  switch (config.shard) {
    case Strategy::none:
      SHADE_REQUIRE(world_size == 1, "--shard none is for one process, but this world has ", world_size,
                    " ranks; choose ddp, zero2, zero3 or hsdp");
      return {};
    case Strategy::ddp: return {.replicate = world_size};
    case Strategy::zero2: return {.shard = world_size};
    case Strategy::zero3: return {.shard = world_size, .reshard = true};
    case Strategy::hsdp: break;
  }
  const auto copies = static_cast<int>(config.replicate);
  SHADE_REQUIRE(world_size % copies == 0, "--replicate ", copies, " doesn't divide a world of ", world_size, " ranks");
  return {.replicate = copies, .shard = world_size / copies, .reshard = true};
}

}  // namespace shade::shard
