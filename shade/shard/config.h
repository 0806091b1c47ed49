// What a user says about sharding.
#pragma once

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

struct ShardConfig {
  Strategy shard = Strategy::none;
  int64_t replicate = 2;
  Wrap wrap = Wrap::module;
  int64_t min_num_params = 100'000'000;
  Bytes segment = MiB(64);
  bool forward_prefetch = true;
  Prefetch backward_prefetch = Prefetch::pre;
  Bytes in_flight = MiB(64);
  bool reduce_once = false;
  nn::DType reduce_dtype = nn::DType::fp32;
  bool offload = false;
  std::string offload_folder;

  void declare(Fields& fields);
};

// The strategy as data: a replicate x shard mesh, and whether gathered weights are given back between their uses.
struct Policy {
  int replicate = 1, shard = 1;
  bool reshard = false;  // after forward; zero3 and hsdp
};
Policy policy_of(const ShardConfig& config, int world_size);  // throws UsageError if the world doesn't divide

}  // namespace shade::shard
