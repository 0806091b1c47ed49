#include "shade/train/identity.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <fstream>

#include "shade/io/digest.h"
#include "shade/io/mapped_file.h"
#include "shade/io/weight_folder.h"

namespace shade::train {
namespace {

// All that is said of the first one but its clock: names alone are shared by generations.
std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  std::string out;
  for (std::string line; std::getline(in, line) && !line.empty();)
    for (const auto* kept : {"vendor", "cpu family", "model", "stepping", "flags", "Features", "CPU "})
      if (line.starts_with(kept)) out += line + "\n";
  return out + at::get_cpu_capability();
}

Json weight_files(const std::string& place) {
  Json out = Json::array();
  if (place.empty()) return out;
  for (const auto& file : io::WeightFolder(place).files())
    out.push_back({file.string(), std::filesystem::file_size(file),
                   std::filesystem::last_write_time(file).time_since_epoch().count()});
  return out;
}

}  // namespace

std::string identity_of(const Config& config, const models::Model& model, const data::Dataset& records,
                        const comm::Group& group) {
  const auto json = config.json();
  const auto program = io::MappedFile::open("/proc/self/exe");
  Json all{{"threads", at::get_num_threads()},
           {"libtorch", TORCH_VERSION},
           {"processor", processor()},
           {"program", io::to_hex(io::digest_of(program->bytes()))},
           {"architecture", model.config_json()},
           {"records", records.size()},
           {"fingerprint", records.fingerprint()},
           {"weights", weight_files(json["model"]["weights"])}};
  for (const auto* section : {"model", "data", "shard", "optim", "dp"}) all[section] = json[section];
  for (const auto* field : {"batch_size", "micro_batch", "seq_length", "records", "eval_records", "seed"})
    all["train"][field] = json["train"][field];
  auto mine = io::digest_of(all.dump());
  const auto length = static_cast<int64_t>(mine.size());
  auto everybody = at::empty({length * group.size()}, at::kByte);
  group.all_gather(everybody, at::from_blob(mine.data(), {length}, at::kByte), {.label = "identity"}).wait();
  return io::to_hex(
      io::digest_of(std::as_bytes(std::span(everybody.data_ptr<uint8_t>(), static_cast<size_t>(everybody.numel())))));
}

}  // namespace shade::train
