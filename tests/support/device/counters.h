// What a device was asked to do.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <string>

namespace shade::test::device {

struct Copies {
  int64_t count = 0;
  int64_t bytes = 0;
};

struct Counters {
  int64_t launches = 0;                     // kernels, copies on the device among them; views are none
  std::map<std::string, int64_t> launched;  // the same by operator
  int64_t synchronisations = 0;             // the host waited for a stream, an event or the device
  int64_t recorded_streams = 0;             // storages whose memory a second stream keeps (record_stream)
  int64_t collectives = 0;
  int64_t groups_left_open = 0;  // destroyed without shutdown()
  Copies to_device_pinned, to_device_pageable, to_host_pinned, to_host_pageable, on_device;
};

Counters counters(c10::DeviceIndex device);
void reset_counters(c10::DeviceIndex device);

// Under the counters' lock. For this folder.
void count(c10::DeviceIndex device, void (*change)(Counters&));
void count_launch(c10::DeviceIndex device, const std::string& op);
void count_copy(c10::DeviceIndex device, Copies Counters::* kind, size_t bytes);

}  // namespace shade::test::device
