#include "tests/support/device/counters.h"

#include <mutex>

namespace shade::test::device {
namespace {

std::mutex& mutex() {
  static auto& one = *new std::mutex;  // never destroyed: threads of libtorch outlive static objects
  return one;
}
Counters& of(c10::DeviceIndex device) {
  static auto& all = *new std::map<c10::DeviceIndex, Counters>;
  return all[device];
}

}  // namespace

Counters counters(c10::DeviceIndex device) {
  const std::lock_guard lock(mutex());
  return of(device);
}

void reset_counters(c10::DeviceIndex device) {
  const std::lock_guard lock(mutex());
  of(device) = {};
}

void count(c10::DeviceIndex device, void (*change)(Counters&)) {
  const std::lock_guard lock(mutex());
  change(of(device));
}

void count_launch(c10::DeviceIndex device, const std::string& op) {
  const std::lock_guard lock(mutex());
  ++of(device).launches;
  ++of(device).launched[op];
}

void count_copy(c10::DeviceIndex device, Copies Counters::* kind, size_t bytes) {
  const std::lock_guard lock(mutex());
  auto& copies = of(device).*kind;
  ++copies.count;
  copies.bytes += static_cast<int64_t>(bytes);
}

}  // namespace shade::test::device
