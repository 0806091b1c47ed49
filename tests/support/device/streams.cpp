#include "tests/support/device/streams.h"

#include <array>
#include <map>
#include <optional>

#include "tests/support/device/counters.h"
#include "tests/support/device/device.h"
#include "tests/support/device/host_copies.h"

namespace shade::test::device {
namespace {

constexpr size_t kMaxDevices = 16;
constexpr int64_t kPool = 32;

struct StreamState {
  c10::DeviceIndex device = 0;
  std::mutex turn;
  Clock clock;
};

struct Open {
  Moment moment;
  std::shared_ptr<Unfinished> work;
};

// Never destroyed: libtorch's threads outlive static objects.
struct State {
  std::mutex mutex;
  std::map<size_t, StreamState> streams;
  Clock host;
  std::vector<Open> open;
  int64_t next_id = 1;
  std::array<std::vector<int64_t>, kMaxDevices> pool;
  std::array<size_t, kMaxDevices> pool_next{};
};
State& state() {
  static auto& one = *new State;
  return one;
}

thread_local c10::DeviceIndex t_device = 0;
thread_local std::array<int64_t, kMaxDevices> t_stream{};  // ids

StreamState& state_of_locked(const c10::Stream& stream) {
  auto& found = state().streams[number_of(stream)];
  found.device = stream.device_index();
  return found;
}

c10::Stream made(c10::DeviceIndex device, int64_t id) { return c10::Stream(c10::Stream::UNSAFE, shadow(device), id); }

}  // namespace

c10::DeviceIndex device_count() {
  static const auto count = [] {
    const char* said = std::getenv("SHADE_SHADOW_DEVICES");
    return static_cast<c10::DeviceIndex>(said == nullptr ? 4 : std::min<int>(std::atoi(said), kMaxDevices));
  }();
  return count;
}

c10::Device shadow(int index) { return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

c10::DeviceIndex current_device() { return t_device; }
void set_current_device(c10::DeviceIndex device) {
  if (device < 0 || device >= device_count())
    throw DeviceFault(text("there is no shadow:", int{device}, ", only ", int{device_count()}, " devices"));
  t_device = device;
}

c10::Stream current_stream(c10::DeviceIndex device) {
  if (device < 0) device = t_device;
  return made(device, t_stream.at(static_cast<size_t>(device)));
}

c10::Stream exchange_stream(c10::Stream stream) {
  auto& id = t_stream.at(static_cast<size_t>(stream.device_index()));
  return made(stream.device_index(), std::exchange(id, stream.id()));
}

c10::Stream new_stream(c10::DeviceIndex device) {
  const std::lock_guard lock(state().mutex);
  return made(device < 0 ? t_device : device, state().next_id++);
}

c10::Stream pool_stream(c10::DeviceIndex device) {
  if (device < 0) device = t_device;
  auto& my = state();
  const std::lock_guard lock(my.mutex);
  auto& pool = my.pool.at(static_cast<size_t>(device));
  while (pool.size() < kPool) pool.push_back(my.next_id++);
  return made(device, pool[my.pool_next.at(static_cast<size_t>(device))++ % kPool]);
}

size_t number_of(const c10::Stream& stream) {
  if (stream.id() == 0) return static_cast<size_t>(stream.device_index());
  return kMaxDevices + static_cast<size_t>(stream.id());
}

std::string name_of_stream(size_t number) {
  if (number < kMaxDevices) return text("stream 0 of shadow:", number);
  const std::lock_guard lock(state().mutex);
  return text("stream ", number - kMaxDevices, " of shadow:", int{state().streams[number].device});
}

Turn::Turn(const c10::Stream& stream) : device_(stream.device_index()) {
  auto& my = state();
  std::unique_lock lock(my.mutex);
  auto& mine = state_of_locked(stream);
  lock.unlock();
  turn_ = std::unique_lock(mine.turn);
  lock.lock();
  mine.clock.join(my.host);
  moment_ = mine.clock.tick(number_of(stream));
  clock_ = mine.clock;
}

void Turn::await_unfinished() const {
  for (const auto& work : unfinished(clock_)) work->finish();
}

void Turn::leaves(std::shared_ptr<Unfinished> work) const {
  const std::lock_guard lock(state().mutex);
  std::erase_if(state().open, [](const Open& open) { return open.work->finished(); });
  state().open.push_back({moment_, std::move(work)});
}

std::vector<std::shared_ptr<Unfinished>> unfinished(const Clock& clock) {
  std::vector<std::shared_ptr<Unfinished>> found;
  const std::lock_guard lock(state().mutex);
  for (const auto& open : state().open)
    if (clock.covers(open.moment)) found.push_back(open.work);
  return found;
}

Clock clock_of(const c10::Stream& stream) {
  auto& my = state();
  std::unique_lock lock(my.mutex);
  auto& mine = state_of_locked(stream);
  lock.unlock();
  const std::lock_guard turn(mine.turn);
  lock.lock();
  mine.clock.join(my.host);
  return mine.clock;
}

Clock launched_on(const c10::Stream& stream) {
  const std::lock_guard lock(state().mutex);
  return state_of_locked(stream).clock;
}

Clock launched_on(c10::DeviceIndex device) {
  Clock all;
  const std::lock_guard lock(state().mutex);
  for (const auto& [number, stream] : state().streams)
    if (stream.device == device) all.join(stream.clock);
  return all;
}

void stream_waits(const c10::Stream& stream, const Clock& clock) {
  const std::lock_guard lock(state().mutex);
  state_of_locked(stream).clock.join(clock);
}

void host_waits(const Clock& clock) {
  for (const auto& work : unfinished(clock)) work->finish();
  {
    const std::lock_guard lock(state().mutex);
    state().host.join(clock);
  }
  finish_host_copies(clock);
}

bool host_asks(const Clock& clock) {
  for (const auto& work : unfinished(clock))
    if (!work->finished()) return false;
  host_waits(clock);
  return true;
}

Clock host_clock() {
  const std::lock_guard lock(state().mutex);
  return state().host;
}

void synchronise(const c10::Stream& stream) {
  count(stream.device_index(), [](Counters& all) { ++all.synchronisations; });
  host_waits(clock_of(stream));
}

}  // namespace shade::test::device
