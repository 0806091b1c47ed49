#include "shade/train/identity.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <unistd.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/checkpoint/owned.h"
#include "shade/io/content_hash.h"
#include "shade/io/digest.h"
#include "shade/io/mapped_file.h"
#include "shade/profile/cpu.h"

namespace shade::train {
namespace {

// All that is said of the first one but its clock: names alone are shared by generations.
std::string processor() {
  std::string out;
  for (const auto& line : profile::cpu_lines())
    for (const auto* kept : {"vendor", "cpu family", "model", "stepping", "flags", "Features", "CPU "})
      if (line.starts_with(kept)) out += line + "\n";
  return out + at::get_cpu_capability();
}

// Variables by which libraries choose kernels, threads, instructions or other libraries.
Json variables() {
  Json out = Json::array();
  for (auto** at = environ; *at != nullptr; ++at)
    for (const std::string_view prefix : {"MKL_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "ATEN_",
                                          "LD_PRELOAD=", "LD_LIBRARY_PATH=", "GLIBC_TUNABLES="})
      if (std::string_view(*at).starts_with(prefix)) out.push_back(*at);
  std::sort(out.begin(), out.end());
  return out;
}

std::string first_weights(shard::Runtime& runtime, optim::Optimizer& optimizer) {
  io::Hasher all;
  for (const auto& piece : checkpoint::owned_by(runtime, optimizer)) {
    if (piece.part != checkpoint::kWeightPart || !piece.values.is_cpu()) continue;
    const auto hash =
        io::content_hash({static_cast<const std::byte*>(piece.values.const_data_ptr()), piece.values.nbytes()});
    all.add(text(piece.name(), ' ', hash[0], ' ', hash[1], '\n'));
  }
  return io::to_hex(all.digest());
}

}  // namespace

// What is taken out: how far to go and when to stop (a step's schedule and noise have total_steps and sigma), where
// files are (their content is in the hash), what is printed, saved or evaluated and how often, and how long to wait.
Json deciding(Json recipe) {
  const std::pair<const char*, std::vector<const char*>> without[] = {
      {"train",
       {"steps", "log_every", "save_every", "save_interval", "keep", "restart", "resume_from", "keep_key", "output",
        "export_folder", "adapter_folder", "export_dtype", "test_folder", "eval_every", "memory_limit", "peak_gflops",
        "threads", "sample_corpus"}},
      {"dp", {"target_epsilon", "max_epsilon", "delta", "accountant"}},
      {"model", {"weights"}},
      {"data", {"data_folder", "cache_folder"}},
      {"shard", {"offload_folder"}},
      {"comm", {"peer_timeout", "rendezvous_timeout", "stall_timeout", "interface"}}};
  for (const auto& [section, fields] : without)
    for (const auto* field : fields) {
      SHADE_CHECK(recipe[section].contains(field), "no field ", section, ".", field,
                  " to take out of a run's identity");
      recipe[section].erase(field);
    }
  return recipe;
}

Identity identity_of(const Config& config, const models::Model& model, const data::Dataset& records,
                     shard::Runtime& runtime, optim::Optimizer& optimizer) {
  const auto program = io::MappedFile::open("/proc/self/exe");
  Json all{{"recipe", deciding(config.json())},
           {"threads", at::get_num_threads()},
           {"libtorch", TORCH_VERSION},
           {"processor", processor()},
           {"program", io::to_hex(io::digest_of(program->bytes()))},
           {"variables", variables()},
           {"architecture", model.config_json()},
           {"records", records.size()},
           {"fingerprint", records.fingerprint()},
           {"weights", first_weights(runtime, optimizer)}};
  const auto& group = runtime.groups().control;
  auto mine = io::digest_of(all.dump());
  const auto length = static_cast<int64_t>(mine.size());
  auto everybody = at::empty({length * group.size()}, at::kByte);
  group.all_gather(everybody, at::from_blob(mine.data(), {length}, at::kByte), {.label = "identity"}).wait();
  const auto bytes = std::as_bytes(std::span(everybody.data_ptr<uint8_t>(), static_cast<size_t>(everybody.numel())));
  return {io::to_hex(io::digest_of(bytes)), std::move(all)};
}

}  // namespace shade::train
