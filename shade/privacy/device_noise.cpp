#include "shade/privacy/device_noise.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

#include "shade/base/cuda_library.h"
#include "shade/base/error.h"
#include "shade/privacy/noise.h"
#include "shade/privacy/noise_cuda.h"

namespace shade::privacy {
namespace {

bool asked_for() {
  const char* const word = std::getenv("SHADE_NOISE");
  const std::string_view place = word == nullptr ? "host" : word;
  SHADE_REQUIRE(place == "host" || place == "device", "SHADE_NOISE is host or device, not ", place);
  return place == "device";
}

// Ranges that begin and end inside of chunks, small and large deviations, both types.
void require_hosts_bits(at::Device device) {
  const Noise noise(seeded_key(1));
  for (const auto type : {at::kFloat, at::kDouble})
    for (const double deviation : {0x1p-40, 0.75, 3e20})
      for (const int64_t size : {int64_t{1}, int64_t{255}, int64_t{1'000'003}}) {
        auto there = at::linspace(-1e3, 1e3, size, type) * deviation, here = there.clone();
        there = there.to(device);
        noise.add(here, deviation, 7, 3, 1000);
        add_noise_on_device(noise.task(deviation, 7, 3, 1000, size), there);
        const auto bits = type == at::kFloat ? at::kInt : at::kLong;
        if (!there.cpu().view(bits).equal(here.view(bits)))
          throw Error(text("the noise of ", device.str(), " differs from the host's in ", size,
                           " numbers of deviation ", deviation, "; unset SHADE_NOISE, and report it"));
      }
}

}  // namespace

bool noise_on_device(at::Device device) {
  if (device.is_cpu() || device.is_meta() || !asked_for()) return false;
  SHADE_REQUIRE(device.is_cuda(), "SHADE_NOISE=device: ", device.str(), " has no kernel for noise; unset it");
  SHADE_REQUIRE(CudaLibrary::get().loaded(), "SHADE_NOISE=device: ", CudaLibrary::get().why_not());
  static std::mutex mutex;
  static std::set<at::Device, bool (*)(at::Device, at::Device)> proven(
      [](at::Device a, at::Device b) { return a.index() < b.index(); });
  const std::lock_guard lock(mutex);
  if (proven.contains(device)) return true;
  require_hosts_bits(device);
  proven.insert(device);
  return true;
}

void add_noise_on_device(const NoiseTask& task, const at::Tensor& flat) {
  const auto& functions = CudaLibrary::get().table<NoiseFunctions>(NoiseFunctions::kName);
  const c10::DeviceGuard guard(flat.device());
  void* const stream = c10::impl::VirtualGuardImpl(flat.device().type()).getStream(flat.device()).native_handle();
  const char* const fault = flat.scalar_type() == at::kDouble
                                ? functions.add_fp64(task, flat.data_ptr<double>(), stream)
                                : functions.add_fp32(task, flat.data_ptr<float>(), stream);
  if (fault != nullptr) throw Error(text("noise on ", flat.device().str(), ": ", fault));
}

}  // namespace shade::privacy
