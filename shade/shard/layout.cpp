#include "shade/shard/layout.h"

#include <algorithm>

#include "shade/base/error.h"

namespace shade::shard {
namespace {

// Segments of one size, the last one shorter. fp32 is what they are measured in: the widest that travels. Multiples of
// a power of two divide evenly among as many ranks as there usually are, whatever their number: the cut is the same for
// all. Without a limit there is one such segment, and what it leaves over.
std::vector<comm::Slice> segments_of(int64_t size, Bytes limit) {
  constexpr int64_t kGrain = 1 << 14;
  int64_t most = limit.count == 0 ? size : std::max<int64_t>(1, limit.count / 4);
  if (most > kGrain) most = most / kGrain * kGrain;
  std::vector<comm::Slice> out;
  for (int64_t begin = 0; begin < size; begin += most) out.push_back({begin, std::min(most, size - begin)});
  return out;
}

void add(UnitLayout& unit, const nn::Unit& member) {
  unit.members.push_back(member.id);
  for (auto* weight : member.weights) {
    auto flat = std::find_if(unit.flats.begin(), unit.flats.end(),
                             [&](const Flat& f) { return f.trainable == weight->trainable(); });
    if (flat == unit.flats.end())
      flat = unit.flats.insert(
          flat, Flat{.name = unit.name + (weight->trainable() ? "" : ".frozen"), .trainable = weight->trainable()});
    flat->pieces.push_back({weight, flat->size});
    flat->size += weight->numel();
  }
}

}  // namespace

comm::Slice Flat::owned(size_t segment, int ranks, int rank) const {
  const auto& whole = segments.at(segment);
  const auto part = comm::slice_of(whole.size, ranks, rank);
  return {whole.begin + part.begin, part.size};
}

std::vector<Share> Flat::shares(int ranks, int rank) const {
  std::vector<Share> out;
  int64_t local = 0;
  for (size_t i = 0; i < segments.size(); ++i) {
    out.push_back({segments[i], owned(i, ranks, rank), local});
    local += out.back().owned.size;
  }
  return out;
}

int64_t Flat::owned(int ranks, int rank) const {
  int64_t sum = 0;
  for (const auto& share : shares(ranks, rank)) sum += share.owned.size;
  return sum;
}

int64_t UnitLayout::elements() const {
  int64_t sum = 0;
  for (const auto& flat : flats) sum += flat.size;
  return sum;
}

int64_t Layout::owned(int ranks, int rank, bool trainable) const {
  int64_t sum = 0;
  for (const auto& unit : units)
    for (const auto& flat : unit.flats)
      if (flat.trainable == trainable) sum += flat.owned(ranks, rank);
  return sum;
}

Layout make_layout(nn::Parameters& parameters, const ShardConfig& config, at::Device device) {
  Layout layout;
  for (const auto& member : parameters.units()) {
    const bool fresh = layout.units.empty() || config.wrap == Wrap::module ||
                       (config.wrap == Wrap::size && layout.units.back().elements() >= config.min_num_params);
    if (fresh) layout.units.push_back({.name = member.name});
    SHADE_CHECK(member.id == static_cast<nn::UnitId>(layout.unit_of.size()), "units are numbered as declared");
    layout.unit_of.push_back(static_cast<int>(layout.units.size()) - 1);
    add(layout.units.back(), member);
  }
  for (auto& unit : layout.units)
    for (auto& flat : unit.flats) flat.segments = segments_of(flat.size, segment_on(config, device));
  return layout;
}

std::vector<Run> runs_in(const Flat& flat, comm::Slice range) {
  std::vector<Run> out;
  for (const auto& piece : flat.pieces) {
    const auto begin = std::max(range.begin, piece.begin);
    const auto end = std::min(range.end(), piece.begin + piece.weight->numel());
    if (begin < end) out.push_back({piece.weight, begin - piece.begin, end - begin, begin - range.begin});
  }
  return out;
}

}  // namespace shade::shard
