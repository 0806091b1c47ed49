#include "shade/checkpoint/owned.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "shade/base/strings.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"
#include "shade/nn/device.h"

namespace shade::checkpoint {
namespace {

void prepare(shard::Runtime& runtime, optim::Optimizer& optimizer) {
  std::vector<optim::Slot> slots;
  for (const auto& unit : runtime.units())
    for (const auto& flat : unit->flats()) {
      if (!flat.layout->trainable) continue;
      size_t segment = 0;
      for (const auto& share : unit->shares(flat))
        slots.push_back({.name = flat.layout->shard_name(segment++),
                         .master = flat.owned.narrow(0, share.local, share.owned.size),
                         .gradient = {},
                         .offset = share.owned.begin});
    }
  optimizer.prepare(slots);
}

}  // namespace

std::string Owned::name() const { return text(part, "/", weight, "@", begin); }

PieceName parse_piece_name(std::string_view name) {
  const auto slash = name.find('/'), at = name.rfind('@');
  const bool parted = slash != name.npos && at != name.npos && slash > 0 && slash + 1 < at;
  const auto begin = parted ? parse_integer(name.substr(at + 1)) : std::nullopt;
  if (!begin || *begin < 0 || text(*begin) != name.substr(at + 1))
    throw io::FormatError(text("tensor ", io::quote(name), " is not called PART/WEIGHT@BEGIN"));
  return {std::string(name.substr(0, slash)), std::string(name.substr(slash + 1, at - slash - 1)), *begin};
}

std::vector<Owned> owned_by(shard::Runtime& runtime, optim::Optimizer& optimizer) {
  if (!optimizer.prepared()) prepare(runtime, optimizer);
  std::vector<Owned> out;
  for (const auto& unit : runtime.units())
    for (const auto& flat : unit->flats()) {
      size_t segment = 0;
      for (const auto& share : unit->shares(flat)) {
        const auto slot = flat.layout->shard_name(segment++);
        for (const auto& run : shard::runs_in(*flat.layout, share.owned)) {
          out.push_back({kWeightPart, run.weight->name(), run.begin,
                         flat.owned.narrow(0, share.local + run.at, run.size), flat.layout->trainable});
          if (!flat.layout->trainable) continue;
          for (const auto& state : optimizer.state_names())
            out.push_back(
                {state, run.weight->name(), run.begin, optimizer.state(slot, state).narrow(0, run.at, run.size)});
        }
      }
    }
  return out;
}

std::vector<Owned> dealt(std::vector<Owned> owned, int copies, int copy) {
  std::vector<size_t> load(static_cast<size_t>(copies), 0);
  std::vector<Owned> out;
  for (auto& piece : owned) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += piece.values.nbytes();
    if (least - load.begin() == copy) out.push_back(std::move(piece));
  }
  return out;
}

// A run stands still while it is copied, and half of that time would go into being given pages: so they are asked for
// as large ones, in one block, which is used again by the next save. A device's values are copied to pinned memory
// between its kernels, and the run goes on.
std::vector<Owned> copied(const std::vector<Owned>& pieces, at::Tensor& block) {
  constexpr int64_t kAlignment = 64;
  const auto padded = [](const Owned& piece) {
    return (static_cast<int64_t>(piece.values.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
  };
  int64_t size = 0;
  for (const auto& piece : pieces) size += padded(piece);
  const auto device = pieces.empty() ? at::Device(at::kCPU) : pieces.front().values.device();
  if (!block.defined() || block.numel() < size) {
    block = at::Tensor();
    block = nn::host_empty(size, at::kByte, device);
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto begin = (reinterpret_cast<uintptr_t>(block.data_ptr()) + page - 1) / page * page;
    const auto end = (reinterpret_cast<uintptr_t>(block.data_ptr()) + block.nbytes()) / page * page;
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // advice: may be refused
  }
  std::vector<Owned> out;
  int64_t at = 0;
  for (const auto& piece : pieces) {
    auto& copy = out.emplace_back(piece);
    copy.values = block.narrow(0, at, static_cast<int64_t>(piece.values.nbytes())).view(piece.values.scalar_type());
    copy.values.copy_(piece.values, /*non_blocking=*/true);
    at += padded(piece);
  }
  return out;
}

std::vector<SavedWeight> weights_of(const shard::Runtime& runtime) {
  std::vector<SavedWeight> out;
  for (const auto& unit : runtime.layout().units)
    for (const auto& flat : unit.flats)
      for (const auto& piece : flat.pieces)
        out.push_back({piece.weight->name(), piece.weight->shape(), flat.trainable});
  // Buffers lie differently with every wrap; a checkpoint does not.
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

}  // namespace shade::checkpoint
