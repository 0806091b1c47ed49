#include "tests/support/device/host_copies.h"

#include <ATen/ATen.h>

#include <cstring>
#include <list>
#include <mutex>

#include "tests/support/device/device.h"
#include "tests/support/device/memory.h"
#include "tests/support/device/streams.h"

namespace shade::test::device {
namespace {

struct HostCopy {
  Moment moment;
  std::string op;
  at::Tensor host;
  at::Tensor bytes;  // to the host: the result; to the device: what the source held. Contiguous as `host` is
  bool to_host = false;
};

std::mutex& mutex() {
  static auto& one = *new std::mutex;
  return one;
}
std::list<HostCopy>& open() {
  static auto& all = *new std::list<HostCopy>;
  return all;
}

void finish(const HostCopy& copy) {
  const auto size = copy.host.nbytes();
  if (copy.to_host) {
    std::memcpy(copy.host.mutable_data_ptr(), copy.bytes.const_data_ptr(), size);
    return;
  }
  if (std::memcmp(copy.host.const_data_ptr(), copy.bytes.const_data_ptr(), size) != 0)
    throw DeviceFault(text(copy.op, " on ", name_of_stream(copy.moment.stream), ": the host changed ",
                           describe(copy.host), " while it was copied to the device; synchronise with the copy first"));
}

template <class Wanted>
void finish_where(const Wanted& wanted) {
  std::list<HostCopy> over;
  {
    const std::lock_guard lock(mutex());
    for (auto copy = open().begin(); copy != open().end();) {
      const auto next = std::next(copy);
      if (wanted(*copy)) over.splice(over.end(), open(), copy);
      copy = next;
    }
  }
  for (const auto& copy : over) finish(copy);
}

}  // namespace

void leave_to_host(const Moment& moment, const std::string& op, at::Tensor destination, at::Tensor result) {
  std::memset(destination.mutable_data_ptr(), kPoison, destination.nbytes());
  const std::lock_guard lock(mutex());
  open().push_back({moment, op, std::move(destination), std::move(result), true});
}

void leave_to_device(const Moment& moment, const std::string& op, at::Tensor source) {
  auto held = source.clone();
  const std::lock_guard lock(mutex());
  open().push_back({moment, op, std::move(source), std::move(held), false});
}

void finish_host_copies(const Clock& clock) {
  finish_where([&](const HostCopy& copy) { return clock.covers(copy.moment); });
}

void finish_host_copies_of(const at::Tensor& memory) {
  const auto bytes = extent(memory);
  finish_where([&](const HostCopy& copy) {
    const auto other = extent(copy.host);
    return other.begin < bytes.end && bytes.begin < other.end;
  });
}

}  // namespace shade::test::device
