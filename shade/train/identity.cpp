#include "shade/train/identity.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <fstream>

#include "shade/checkpoint/digest.h"

namespace shade::train {
namespace {

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line;
  return "unknown";
}

}  // namespace

std::string identity_of(const Config& config, const data::Dataset& records, int ranks) {
  const auto json = config.json();
  Json all{{"ranks", ranks},        {"threads", at::get_num_threads()}, {"libtorch", TORCH_VERSION},
           {"processor", processor()}, {"records", records.size()},        {"data", records.describe()}};
  for (const auto* section : {"model", "data", "shard", "optim", "dp"}) all[section] = json[section];
  for (const auto* field : {"batch_size", "micro_batch", "seq_length", "records", "eval_records", "seed"})
    all["train"][field] = json["train"][field];
  return checkpoint::to_hex(checkpoint::digest_of(all.dump()));
}

}  // namespace shade::train
