// What libtorch asks of a device: guards, streams, events, pinned memory. Registered before main().
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/support/device/device.h"
#include "tests/support/device/memory.h"
#include "tests/support/device/streams.h"

namespace shade::test::device {
namespace {

struct Event {
  c10::DeviceIndex device = 0;
  Clock clock;
  TimePoint recorded;
  std::vector<std::shared_ptr<Unfinished>> before;
  bool asked = false;

  TimePoint reached() const {
    auto last = recorded;
    for (const auto& work : before) last = std::max(last, work->finished_at());
    return last;
  }
};
Event& event_at(void* event) { return *static_cast<Event*>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    set_current_device(device.index());
    return before;
  }
  c10::Device getDevice() const override { return shadow(current_device()); }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { set_current_device(device.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device.has_index() ? device : getDevice());
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return pool_stream(device.index()); }
  c10::Stream getNewStream(c10::Device device, int) const override { return new_stream(device.index()); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }
  bool queryStream(const c10::Stream& stream) const override { return host_asks(launched_on(stream)); }
  void synchronizeStream(const c10::Stream& stream) const override { synchronise(stream); }
  void synchronizeDevice(c10::DeviceIndex device) const override {
    if (device < 0) device = current_device();
    count(device, [](Counters& all) { ++all.synchronisations; });
    host_waits(launched_on(device));
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex device, c10::EventFlag) const override {
    if (device != -1 && device != stream.device_index())
      throw DeviceFault(text("an event of shadow:", int{device}, " can't be recorded on ",
                             name_of_stream(number_of(stream)), ": an event belongs to one device"));
    if (*event == nullptr) *event = new Event;
    auto& mine = event_at(*event);
    mine.device = stream.device_index();
    mine.clock = clock_of(stream);
    mine.recorded = std::chrono::steady_clock::now();
    mine.before = unfinished(mine.clock);
    mine.asked = false;
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) stream_waits(stream, event_at(event).clock);
  }
  // A device is behind its host: who asks for the first time, and hasn't waited, hears no.
  bool queryEvent(void* event) const override {
    if (event == nullptr || host_clock().covers(event_at(event).clock)) return true;
    return std::exchange(event_at(event).asked, true) && host_asks(event_at(event).clock);
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    count(event_at(event).device, [](Counters& all) { ++all.synchronisations; });
    host_waits(event_at(event).clock);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
  double elapsedTime(void* first, void* second, c10::DeviceIndex) const override {
    const auto time = event_at(second).reached() - event_at(first).reached();
    return std::chrono::duration<double, std::milli>(time).count();
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    record_stream(memory, stream);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { set_current_device(device); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const auto before = current_device();
    set_current_device(device);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }
  at::Device getDeviceFromPtr(void* address) const override { return shadow(device_of(address)); }
  bool isPinnedPtr(const void* address) const override { return is_pinned(address); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
};

[[maybe_unused]] const bool registered = [] {
  c10::register_privateuse1_backend("shadow");
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::SetAllocator(c10::kPrivateUse1, &device_allocator(), 1);
  return true;
}();

}  // namespace
}  // namespace shade::test::device
