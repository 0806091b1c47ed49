#include "shade/train/computes_with.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <unistd.h>

#include <algorithm>

#include "shade/comm/backends/backends.h"
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
    for (const std::string_view prefix : {"MKL_", "OMP_", "GOMP_", "KMP_", "DNNL_", "ONEDNN_", "ATEN_", "TORCH_ALLOW_",
                                          "TORCH_LINEAR_", "TORCH_MKLDNN_", "TORCH_BLAS_", "PYTORCH_", "OPENBLAS_",
                                          "LD_AUDIT=", "LD_PRELOAD=", "LD_LIBRARY_PATH=", "GLIBC_TUNABLES="})
      if (std::string_view(*at).starts_with(prefix)) out.push_back(*at);
  std::sort(out.begin(), out.end());
  return out;
}

const std::string& program_digest() {
  static const auto digest = io::to_hex(io::digest_of(io::MappedFile::open("/proc/self/exe")->bytes()));
  return digest;
}

}  // namespace

Json computes_with(at::Device device) {
  return {{"threads", at::get_num_threads()}, {"libtorch", TORCH_VERSION},   {"processor", processor()},
          {"device", device_words(device)},   {"program", program_digest()}, {"variables", variables()}};
}

Json must_be_shared(at::Device device) {
  auto out = computes_with(device);
  if (device.is_cpu())
    out["processor"] = {{"name", profile::cpu_name()},
                        {"digest", io::to_hex(io::digest_of(processor())).substr(0, 12)}};
  else
    for (const auto* field : {"processor", "threads"}) out.erase(field);
  out["program"] = program_digest().substr(0, 12);
  return out;
}

}  // namespace shade::train
