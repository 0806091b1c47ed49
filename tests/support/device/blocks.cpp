#include "tests/support/device/blocks.h"

#include <ranges>

#include "tests/support/device/arena.h"
#include "tests/support/device/device.h"

namespace shade::test::device {
namespace {

[[noreturn]] void refuse(const Turn& turn, const std::string& op, const Block& block, const Access& now,
                         const Access& last) {
  const auto who =
      text(op, " on ", name_of_stream(turn.stream()), now.write ? " writes " : " reads ", block.describe());
  const auto other = text(last.op, " on ", name_of_stream(last.moment.stream));
  if (last.life != block.life)
    throw DeviceFault(text(who, ", whose memory was storage #", last.life, " before; ", other,
                           last.write ? " may still write it: " : " may still read it: ",
                           last.moment.stream == block.stream
                               ? "wait for the stream it was allocated on"
                               : "it was freed too early (record_stream, or wait before the free)"));
  throw DeviceFault(text(who, ", not ordered after ", other, ", which ", last.write ? "writes" : "reads",
                         " it: wait for an event of that stream first"));
}

thread_local const std::string* t_op = nullptr;

}  // namespace

Blocks& blocks() {
  static auto& one = *new Blocks;
  return one;
}

Block* Blocks::find(uintptr_t address) {
  auto after = all.upper_bound(address);
  if (after == all.begin()) return nullptr;
  auto& [begin, block] = *std::prev(after);
  return address < begin + block.size ? &block : nullptr;
}

std::string Block::describe() const {
  if (device.is_cpu()) return text("pinned storage #", life, " (", requested, " bytes)");
  return text(live ? "storage #" : "freed storage #", life, " (", requested, " bytes of ", device, ", allocated on ",
              name_of_stream(stream), " by ", op, ")");
}

Allocating::Allocating(const std::string& op) : outer_(std::exchange(t_op, &op)) {}
Allocating::~Allocating() { t_op = outer_; }

const std::string& allocating_op() {
  static const auto& unknown = *new std::string("the program");
  return t_op == nullptr ? unknown : *t_op;
}

Extent extent(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
  const auto item = tensor.itemsize();
  const auto begin =
      reinterpret_cast<uintptr_t>(tensor.storage().data()) + static_cast<uintptr_t>(tensor.storage_offset()) * item;
  return {begin, begin + (static_cast<uintptr_t>(last) + 1) * item};
}

std::string describe_address(uintptr_t address) {
  const std::lock_guard lock(blocks().mutex);
  const auto* block = blocks().find(address);
  return block == nullptr ? "memory that was never allocated" : block->describe();
}

std::string describe(const at::Tensor& tensor) { return describe_address(extent(tensor).begin); }

void access(const Turn& turn, const std::string& op, const at::Tensor& tensor, bool write) {
  const auto bytes = extent(tensor);
  if (bytes.begin == bytes.end) return;
  const auto host = host_clock();
  const std::lock_guard lock(blocks().mutex);
  auto* block = blocks().find(bytes.begin);
  if (block == nullptr && !in_arena(bytes.begin)) return;  // pageable
  if (block == nullptr || !block->live)
    throw DeviceFault(text(op, " on ", name_of_stream(turn.stream()), write ? " writes " : " reads ",
                           block == nullptr ? "memory that was never allocated" : block->describe()));
  const Access now{bytes, turn.moment(), write, op, block->life};
  for (const auto& last : block->accesses | std::views::reverse)
    if ((last.write || write) && last.bytes.begin < bytes.end && bytes.begin < last.bytes.end &&
        !turn.clock().covers(last.moment))
      refuse(turn, op, *block, now, last);
  // A write replaces all it covers; a read the earlier reads of its stream. What the host knows orders nothing anew.
  std::erase_if(block->accesses, [&](const Access& last) {
    const bool covered = bytes.begin <= last.bytes.begin && last.bytes.end <= bytes.end;
    return host.covers(last.moment) || (covered && (write || (!last.write && last.moment.stream == turn.stream())));
  });
  block->accesses.push_back(now);
}

bool is_pinned(const void* address) {
  const std::lock_guard lock(blocks().mutex);
  const auto* block = blocks().find(reinterpret_cast<uintptr_t>(address));
  return block != nullptr && block->live && block->device.is_cpu();
}

c10::DeviceIndex device_of(const void* device_address) {
  const std::lock_guard lock(blocks().mutex);
  const auto* block = blocks().find(reinterpret_cast<uintptr_t>(device_address));
  if (block == nullptr || block->device.is_cpu()) throw DeviceFault("not an address of the emulated device");
  return block->device.index();
}

void record_stream(const c10::DataPtr& memory, const c10::Stream& stream) {
  const std::lock_guard lock(blocks().mutex);
  auto* block = blocks().find(reinterpret_cast<uintptr_t>(memory.get()));
  if (block == nullptr || !block->live || number_of(stream) == block->stream) return;
  count(stream.device_index(), [](Counters& all) { ++all.recorded_streams; });
  block->recorded.push_back(stream);
}

}  // namespace shade::test::device
