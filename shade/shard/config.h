// What a user says about sharding.
#pragma once

#include <c10/core/Device.h>

#include "shade/base/config.h"
#include "shade/catalog/strategies.h"
#include "shade/nn/dtype.h"

namespace shade::shard {

using catalog::Strategy;  // what each does: policy_of()

// module: a unit per block, embedding, head. size: neighbours together until they have min_num_params. none: one unit.
enum class Wrap { module, size, none };
inline std::span<const Name<Wrap>> names_of(Wrap) {
  static constexpr Name<Wrap> kNames[] = {{"module", Wrap::module},
                                          {"size", Wrap::size},
                                          {"none", Wrap::none},
                                          {"module_wrap", Wrap::module},
                                          {"size_based", Wrap::size}};
  return kNames;
}

// When backward asks for the next unit: before it computes with the present one, after it, or when it is needed.
enum class Prefetch { pre, post, none };
inline std::span<const Name<Prefetch>> names_of(Prefetch) {
  static constexpr Name<Prefetch> kNames[] = {
      {"pre", Prefetch::pre},          {"post", Prefetch::post},          {"none", Prefetch::none},
      {"BACKWARD_PRE", Prefetch::pre}, {"BACKWARD_POST", Prefetch::post}, {"NONE", Prefetch::none}};
  return kNames;
}

// How weights, gradients and optimizer state are divided among ranks and communicated.
struct ShardConfig {
  Strategy shard = Strategy::none;             // none: for one rank alone
  int64_t replicate = 2;                       // hsdp: copies of the model; divides the number of ranks
  Wrap wrap = Wrap::module;                    // what is gathered together
  int64_t min_num_params = 100'000'000;        // Wrap::size: smallest number of parameters per unit
  Bytes segment{0};                            // 0: depends on the device (segment_on)
  bool forward_prefetch = true;                // gather the next unit while the present one computes forward
  Prefetch backward_prefetch = Prefetch::pre;  // when backward gathers the next unit
  Bytes in_flight = MiB(64);                   // most gradients in transit; one unit is always allowed; 0: no overlap
  bool reduce_once = false;                    // keep whole gradients over micro-steps, and reduce them once per update
  nn::DType reduce_dtype = nn::DType::fp32;    // of gradients in transit; private runs need fp32
  bool offload = false;        // shards and optimizer state in a mapped file (CPU) or host memory (CUDA)
  std::string offload_folder;  // of that file; empty: the system's temporary folder

  // Adds every field with its name, help, unit and range (base/config.h).
  void declare(Fields& f) {
    f.add("shard", shard,
          {.help = "sharding strategy",
           .flags = {"--shard", "--data-parallel"},
           .if_not_given = "none; with several ranks zero3",
           .common = true});
    f.add("replicate", replicate,
          {.help = "number of replicas of the model under hsdp",
           .min = 1,
           .flags = {"--replicate"},
           .needs = {{"shard.shard", {"hsdp"}}}});
    f.add("wrap", wrap,
          {.help = "granularity of the units that are gathered together; module: one per block, embedding and head; "
                   "size: neighbours until a unit has min_num_params; none: one unit",
           .flags = {"--wrap", "--auto-wrap-policy"}});
    f.add("min_num_params", min_num_params,
          {.help = "smallest number of parameters per unit with --wrap size",
           .min = 1,
           .flags = {"--min-num-params"},
           .needs = {{"shard.wrap", {"size"}}}});
    f.add("segment", segment,
          {.help =
               "size of the segments in which larger units are communicated; 0: 64 MiB on a CPU, whole units elsewhere",
           .flags = {"--segment-bytes"}});
    f.add("forward_prefetch", forward_prefetch,
          {.help = "whether the next unit is gathered while the current one computes its forward pass",
           .flags = {"--forward-prefetch"},
           .needs = {{"shard.shard"}}});
    f.add("backward_prefetch", backward_prefetch,
          {.help = "time at which the backward pass gathers the next unit; pre: before the current unit computes; "
                   "post: after it; none: when it is needed",
           .flags = {"--backward-prefetch"},
           .needs = {{"shard.shard"}}});
    f.add("in_flight", in_flight,
          {.help = "largest total size of gradients in transit; one unit, and one gather ahead, are always allowed; 0: "
                   "no overlap",
           .flags = {"--in-flight"},
           .needs = {{"shard.shard"}}});
    f.add("reduce_once", reduce_once,
          {.help = "whether whole gradients are kept over micro-steps and reduced once per update (more memory, less "
                   "traffic)",
           .flags = {"--reduce-once"},
           .needs = {{"shard.shard"}}});
    f.add("reduce_dtype", reduce_dtype,
          {.help = "data type of gradients during reduction", .flags = {"--reduce-dtype"}, .needs = {{"shard.shard"}}});
    f.add("offload", offload,
          {.help = "whether shards and optimizer state are kept in a mapped file (CPU) or in host memory (CUDA)",
           .flags = {"--offload", "--cpu-offload"}});
    f.add("offload_folder", offload_folder,
          {.help = "folder of that mapped file; if not set, the system's temporary folder",
           .flags = {"--offload-folder"},
           .needs = {{"shard.offload"}}});
  }
};

// The strategy as data: a replicate x shard mesh, and whether gathered weights are given back between their uses.
struct Policy {
  int replicate = 1;     // copies of the model
  int shard = 1;         // ranks that share one copy
  bool reshard = false;  // after forward; zero3 and hsdp
};
// Largest segment on a device; 0: no limit. A CPU overlaps a unit's parts with each other; to an accelerator each is a
// launch on every rank, and a network reaches its speed with large ones.
inline Bytes segment_on(const ShardConfig& config, at::Device device) {
  if (config.segment.count > 0) return config.segment;
  return device.is_cpu() || device.is_meta() ? MiB(64) : Bytes{0};
}

Policy policy_of(const ShardConfig& config, int world_size);  // throws UsageError if the world doesn't divide

// The strategy of a job that doesn't state one.

// zero3 for a method whose name says so (ghost_fsdp) and for several ranks, unless [shard] shard was given. Returns
// what was chosen and why, to be announced; empty: nothing. Choosing again changes nothing.
std::string choose_strategy(ShardConfig& shard, const Given& given, int ranks);

}  // namespace shade::shard
