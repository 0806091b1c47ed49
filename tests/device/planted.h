// Planted faults: each is seen by the emulated device, and its message says where.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/device/device.h"

namespace shade::test::device {

inline const c10::impl::VirtualGuardImpl& guard() {
  static const c10::impl::VirtualGuardImpl one(c10::kPrivateUse1);
  return one;
}

// A test begins with idle devices and without cached memory: a fault leaves streams that nothing has waited for.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    c10::getDeviceAllocator(c10::kPrivateUse1)->emptyCache();
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) reset_counters(device);
  }
};
class PlantedFault : public DeviceTest {};

// The message of the emulated device, or of libtorch where it refuses the call itself.
inline std::string fault_of(const std::function<void()>& planted) {
  try {
    planted();
  } catch (const DeviceFault& fault) {
    return fault.what();
  } catch (const c10::Error& fault) {
    return fault.what_without_backtrace();
  }
  return "no fault was seen";
}

inline testing::AssertionResult says(const std::string& message, std::initializer_list<const char*> words) {
  for (const auto* word : words)
    if (message.find(word) == std::string::npos)
      return testing::AssertionFailure() << "'" << word << "' is not in: " << message;
  return testing::AssertionSuccess();
}

inline testing::AssertionResult refused(const std::function<void()>& planted,
                                        std::initializer_list<const char*> words) {
  return says(fault_of(planted), words);
}

inline c10::Stream side_stream(int device = 0) { return guard().getNewStream(shadow(device)); }
inline c10::Stream here(int device = 0) { return guard().getStream(shadow(device)); }

inline void wait_for(const c10::Stream& waiting, const c10::Stream& other) {
  c10::Event event(c10::kPrivateUse1);
  event.record(other);
  event.block(waiting);
}

}  // namespace shade::test::device
