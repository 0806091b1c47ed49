#include "shade/train/spec/computes_with.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <link.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <span>
#include <sstream>

#include "shade/comm/backends/backends.h"
#include "shade/hash/digest.h"
#include "shade/io/input_file.h"
#include "shade/profile/device.h"
#include "shade/profile/placement.h"
#include "shade/train/step/job.h"
#include "shade/train/step/job_settings.h"

namespace shade::train {
namespace {

// Of a note GNU in the object's segments; empty: it has none.
std::string build_id(const dl_phdr_info& info) {
  for (const auto& segment : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const std::byte*>(info.dlpi_addr + segment.p_vaddr);
    for (const auto* const end = at + segment.p_memsz; at + sizeof(ElfW(Nhdr)) < end;) {
      const auto* const note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
      const auto* const name = at + sizeof(*note);
      const auto* const content = name + padded(note->n_namesz);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        return hash::to_hex(hash::digest_of(std::span(content, note->n_descsz))).substr(0, 12);
      at = content + padded(note->n_descsz);
    }
  }
  return {};
}

// Fields of /proc/cpuinfo, for the first one, but its clock: names alone are shared by generations.
std::string processor() {
  std::string out;
  for (const auto& line : profile::cpu_lines())
    for (const auto* kept : {"vendor", "cpu family", "model", "stepping", "cache size", "flags", "Features", "CPU "})
      if (line.starts_with(kept)) out += line + "\n";
  return out + at::get_cpu_capability();
}

// By its linker, or else by its content.
std::string identifier(const dl_phdr_info& info) {
  if (auto id = build_id(info); !id.empty()) return id;
  return hash::to_hex(hash::digest_of(io::MappedFile::open(info.dlpi_name)->bytes())).substr(0, 12);
}

// Some are loaded by the first product: whether one was made before must not decide what there is.
void load_all() {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto x = at::ones({32, 32}, type);
    at::mm(x, x);
  }
}

// The identifiers of those that compute, by name.
Json libraries() {
  load_all();
  Json out = Json::object();
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        const auto name = std::filesystem::path(info->dlpi_name).filename().string();
        for (const auto* kept :
             {"libtorch", "libc10",      "libmkl",     "libdnnl",    "libgomp",   "libiomp",        "libomp",
              "libm.so",  "libopenblas", "libsleef",   "libblas",    "liblapack", "libarm_compute", "libcublas",
              "libcudnn", "libnccl",     "librocblas", "libhipblas", "libMIOpen", "libshade_cuda"})
          if (name.starts_with(kept)) (*static_cast<Json*>(into))[name] = identifier(*info);
        return 0;
      },
      &out);
  return out;
}

// What kernels run on, and by what its sums travel. Empty on a CPU, which `processor` describes.
Json device_settings(at::Device device) {
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
  static const auto digest = hash::to_hex(hash::digest_of(io::MappedFile::open("/proc/self/exe")->bytes()));
  return digest;
}

}  // namespace

std::string rounding_processor(std::span<const std::string> cpu_lines) {
  std::string out;
  for (const auto& line : cpu_lines) {
    for (const auto* kept : {"vendor", "cpu family", "model", "stepping", "cache size", "CPU "})
      if (line.starts_with(kept)) out += line + "\n";
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;)
      for (const auto* kept :
           {"sse", "ssse", "avx", "fma", "f16c", "amx", "bmi", "asimd", "sve", "bf16", "i8mm", "sme"})
        if (word.starts_with(kept)) out += word + " ";
  }
  return out;
}

Json computes_with(at::Device device) {
  return {{"threads", at::get_num_threads()},  {"libtorch", TORCH_VERSION},   {"processor", processor()},
          {"device", device_settings(device)}, {"program", program_digest()}, {"libraries", libraries()},
          {"variables", variables()}};
}

Json must_be_shared(at::Device device) {
  Json out{{"libtorch", TORCH_VERSION}, {"program", program_digest().substr(0, 12)}, {"libraries", libraries()}};
  if (device.is_cpu()) {
    out["threads"] = at::get_num_threads();
    out["processor"] = {
        {"name", profile::cpu_name()},
        {"digest", hash::to_hex(hash::digest_of(rounding_processor(profile::cpu_lines()) + at::get_cpu_capability()))
                       .substr(0, 12)}};
  } else {
    out["device"] = device_settings(device);
    out["device"].erase("visible");
  }
  out["variables"] = Json::array();
  const auto of_a_place = {"GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PLACES", "OMP_PROC_BIND", "LD_LIBRARY_PATH"};
  const auto of_a_cpu = {"OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "ATEN_"};
  for (const auto& variable : variables()) {
    const auto begins = [&](const char* name) { return variable.get<std::string_view>().starts_with(name); };
    if (std::none_of(of_a_place.begin(), of_a_place.end(), begins) &&
        (device.is_cpu() || std::none_of(of_a_cpu.begin(), of_a_cpu.end(), begins)))
      out["variables"].push_back(variable);
  }
  return out;
}

void require_computing_alike(const comm::Group& control, at::Device device) {
  if (control.size() == 1 || device.is_meta()) return;
  require_same(control, must_be_shared(device),
               "give every rank the same program, libraries, processor, number of threads and environment: one that "
               "rounds differently would let a record change what others add to the sum");
}

}  // namespace shade::train
