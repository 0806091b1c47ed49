#include "shade/train/identity.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <unistd.h>

#include <algorithm>

#include "shade/checkpoint/owned.h"
#include "shade/io/content_hash.h"
#include "shade/io/digest.h"
#include "shade/io/mapped_file.h"
#include "shade/profile/cpu.h"
#include "shade/profile/device.h"

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

// What kernels run on, and by what its sums travel. Empty on a CPU, which `processor` describes.
Json device_words(at::Device device) {
  if (device.is_cpu()) return nullptr;
  return {{"name", profile::device_name(device)}, {"visible", comm::nccl_devices()}, {"nccl", comm::nccl_version()}};
}

// Variables by which libraries choose kernels, threads, instructions or other libraries.
Json variables() {
  Json out = Json::array();
  for (auto** at = environ; *at != nullptr; ++at)
    for (const std::string_view prefix :
         {"MKL_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "ATEN_", "TORCH_LINEAR_", "TORCH_MKLDNN_", "TORCH_BLAS_",
          "PYTORCH_", "OPENBLAS_", "LD_AUDIT=", "LD_PRELOAD=", "LD_LIBRARY_PATH=", "GLIBC_TUNABLES="})
      if (std::string_view(*at).starts_with(prefix)) out.push_back(*at);
  std::sort(out.begin(), out.end());
  return out;
}

std::string first_weights(shard::Runtime& runtime, optim::Optimizer& optimizer) {
  io::Hasher all;
  for (const auto& piece : checkpoint::owned_by(runtime, optimizer)) {
    if (piece.part != checkpoint::kWeightPart || piece.values.is_meta()) continue;
    const auto here = piece.values.cpu();
    const auto hash = io::content_hash({static_cast<const std::byte*>(here.const_data_ptr()), here.nbytes()});
    all.add(text(piece.name(), ' ', hash[0], ' ', hash[1], '\n'));
  }
  return io::to_hex(all.digest());
}

}  // namespace

Identity identity_of(Job& job) {
  const auto program = io::MappedFile::open("/proc/self/exe");
  Json all{{"job", job.words()},
           {"threads", at::get_num_threads()},
           {"libtorch", TORCH_VERSION},
           {"processor", processor()},
           {"device", device_words(job.device())},
           {"program", io::to_hex(io::digest_of(program->bytes()))},
           {"variables", variables()},
           {"weights", first_weights(job.runtime(), job.optimizer())}};
  const auto& group = job.groups().control;
  auto mine = io::digest_of(all.dump());
  const auto length = static_cast<int64_t>(mine.size());
  auto all_ranks = at::empty({length * group.size()}, at::kByte);
  group.all_gather(all_ranks, at::from_blob(mine.data(), {length}, at::kByte), {.label = "identity"}).wait();
  const auto bytes = std::as_bytes(std::span(all_ranks.data_ptr<uint8_t>(), static_cast<size_t>(all_ranks.numel())));
  return {io::to_hex(io::digest_of(bytes)), std::move(all)};
}

}  // namespace shade::train
