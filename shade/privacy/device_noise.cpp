#include "shade/privacy/device_noise.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <bit>
#include <cstdlib>
#include <mutex>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "shade/base/cuda_library.h"
#include "shade/base/error.h"
#include "shade/privacy/ideal_normal.h"
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

// Ranges that begin and end inside of chunks, small and large deviations.
void require_hosts_bits(at::Device device) {
  const Noise noise(seeded_key(1));
  for (const double deviation : {0x1p-40, 0.75, 3e20})
    for (const int64_t size : {int64_t{1}, int64_t{255}, int64_t{1'000'003}}) {
      auto there = at::linspace(-1e3, 1e3, size, at::kDouble) * deviation, here = there.clone();
      there = there.to(device);
      noise.add(here, deviation, 7, 3, 1000);
      add_noise_on_device(noise.task(deviation, 7, 3, 1000, size), there);
      if (!there.cpu().view(at::kLong).equal(here.view(at::kLong)))
        throw Error(text("the noise of ", device.str(), " differs from the host's in ", size, " numbers of deviation ",
                         deviation, "; unset SHADE_NOISE, and report it"));
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
  const auto first = task.begin / kNormalChunk, last = (task.end + kNormalChunk - 1) / kNormalChunk;
  const auto undecided = at::empty({(last - first) * kLanes}, flat.options().dtype(at::kShort));
  const char* const fault =
      functions.add(task, flat.data_ptr<double>(), reinterpret_cast<uint16_t*>(undecided.data_ptr<int16_t>()), stream);
  if (fault != nullptr) throw Error(text("noise on ", flat.device().str(), ": ", fault));
  decide(task, undecided.cpu(), flat);
}

void decide(const NoiseTask& task, const at::Tensor& undecided, const at::Tensor& flat) {
  const auto first = task.begin / kNormalChunk;
  const std::span lanes(undecided.const_data_ptr<int16_t>(), static_cast<size_t>(undecided.numel()));
  std::vector<int64_t> places;
  for (size_t at = 0; at < lanes.size(); ++at)
    for (auto left = static_cast<uint16_t>(lanes[at]); left != 0; left &= static_cast<uint16_t>(left - 1)) {
      const auto chunk = first + static_cast<int64_t>(at) / kLanes, lane = static_cast<int64_t>(at) % kLanes;
      places.push_back(kNormalChunk * chunk + kLanes * std::countr_zero(left) + lane - task.begin);
    }
  if (places.empty()) return;
  const auto index = at::tensor(places, at::kLong).to(flat.device());
  const auto sums = flat.index_select(0, index).cpu();
  auto* const sum = sums.data_ptr<double>();
  for (size_t i = 0; i < places.size(); ++i) sum[i] = ideal_sum(task.grid, sum[i], task.key, task.begin + places[i]);
  flat.index_copy_(0, index, sums.to(flat.device()));
}

}  // namespace shade::privacy
