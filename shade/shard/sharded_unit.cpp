#include "shade/shard/sharded_unit.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "shade/base/error.h"
#include "shade/base/parallel.h"
#include "shade/base/temporary_folder.h"
#include "shade/nn/device.h"
#include "shade/nn/launches.h"

namespace shade::shard {
namespace {

// Waits for all, keeps what they were.
void wait(std::vector<comm::Work>& works, std::vector<comm::TrafficRecord>& into) {
  for (const auto& work : works) {
    work.wait();
    if (auto record = work.record()) into.push_back(std::move(*record));
  }
  works.clear();
}

// What is owned is in memory that the device computes in. Shapes alone stand for a CPU's unless they are planned for an
// accelerator, whose offloaded weights are on the host.
bool within_reach(const UnitContext& context, const at::Tensor& owned) {
  return owned.is_meta() ? !context.offload || !nn::few_launches(owned) : owned.device() == context.device;
}

bool gradients_offloaded(const UnitContext& context, const at::Tensor& owned) {
  return context.offloaded() || (context.offload && owned.is_meta() && within_reach(context, owned));
}

// Elements [begin, end) of exact sums to fp32, within their own memory: element i is written where those up to i / 2
// were, so the ones before `begin` must have been narrowed. `wide` are those elements, there or a copy.
void narrow_in_place(const at::Tensor& wide, std::byte* memory, int64_t begin, int64_t end) {
  const auto* const values = static_cast<const std::byte*>(wide.const_data_ptr());
  const auto convert = [&](int64_t first, int64_t last) {
    constexpr int64_t kAtOnce = 512;
    double from[kAtOnce];
    float to[kAtOnce];
    for (auto at = first; at < last; at += kAtOnce) {
      const auto count = static_cast<size_t>(std::min(kAtOnce, last - at));
      std::memcpy(from, values + 8 * (at - begin), 8 * count);
      for (size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
      std::memcpy(memory + 4 * at, to, 4 * count);
    }
  };
  if (end <= 2 * begin)  // nothing that is read is written
    parallel_for(begin, end, 1 << 14, convert);
  else
    convert(begin, end);
}

}  // namespace

ShardedUnit::ShardedUnit(const UnitLayout& layout, const UnitContext& context) : layout_(&layout), context_(&context) {
  const int ranks = context.groups.gather.size(), rank = context.groups.gather.rank();
  for (const auto& flat : layout.flats) {
    // Frozen weights are never updated: nothing is gained by keeping them wider than they are used.
    const auto type = flat.trainable ? context.master : context.compute;
    FlatState state{.layout = &flat,
                    .owned = context.storage->zeros(flat.owned(ranks, rank), type, MemoryKind::parameters)};
    state.written.assign(flat.pieces.size(), false);
    state.final.assign(flat.pieces.size(), false);
    flats_.push_back(std::move(state));
  }
  if (!resident()) return;
  weights_ = Weights::gathered;
  for (auto& flat : flats_) {
    const bool same = flat.owned.scalar_type() == context.compute && within_reach(context, flat.owned);
    const MemoryScope scope(MemoryKind::gathered);
    flat.full =
        same ? flat.owned : flat.owned.to(context.device, context.compute, /*non_blocking=*/false, /*copy=*/true);
    bind(flat);
  }
}

Bytes ShardedUnit::gradient_bytes() const {
  int64_t sum = 0;
  for (const auto& flat : flats_)
    for (const auto& held : {flat.whole_gradient, flat.wire})  // one of them, if the wire has another type
      if (held.defined()) sum += static_cast<int64_t>(held.nbytes());
  return {sum};
}

std::vector<Share> ShardedUnit::shares(const FlatState& flat) const {
  return flat.layout->shares(context_->groups.gather.size(), context_->groups.gather.rank());
}

void ShardedUnit::bind(FlatState& flat) {
  for (const auto& piece : flat.layout->pieces)
    piece.weight->bind(flat.full.narrow(0, piece.begin, piece.weight->numel()).view(piece.weight->shape()));
}

void ShardedUnit::gather() {
  SHADE_CHECK(weights_ == Weights::sharded, "unit ", layout_->name, " is gathered already");
  weights_ = Weights::gathering;
  for (auto& flat : flats_) {
    const MemoryScope scope(MemoryKind::gathered);
    flat.full = at::empty({flat.layout->size}, at::TensorOptions(context_->device).dtype(context_->compute));
    for (const auto& [segment, mine, local] : shares(flat)) {
      auto input = flat.owned.narrow(0, local, mine.size);
      // Gathered in place. What is offloaded lies in pinned memory: it is copied without blocking and converted by the
      // device. The host writes it again only after a wait for the device (Step::run, evaluate).
      if (input.scalar_type() != context_->compute || input.device() != context_->device) {
        const auto wide = input.scalar_type() == context_->compute ? input : nn::on_device(input, context_->device);
        input = flat.full.narrow(0, mine.begin, mine.size).copy_(wide, /*non_blocking=*/true);
      }
      flat.gathers.push_back(context_->groups.gather.all_gather(flat.full.narrow(0, segment.begin, segment.size), input,
                                                                {.label = "gather " + flat.layout->name}));
    }
  }
}

std::vector<comm::TrafficRecord> ShardedUnit::await() {
  SHADE_CHECK(weights_ == Weights::gathering, "unit ", layout_->name, " is not being gathered");
  std::vector<comm::TrafficRecord> records;
  for (auto& flat : flats_) {
    wait(flat.gathers, records);
    bind(flat);
  }
  weights_ = Weights::gathered;
  return records;
}

void ShardedUnit::release() {
  if (resident()) return;
  SHADE_CHECK(weights_ == Weights::gathered, "unit ", layout_->name, " has nothing to release");
  for (auto& flat : flats_) {
    for (const auto& piece : flat.layout->pieces) piece.weight->release();
    flat.full.reset();
  }
  weights_ = Weights::sharded;
}

void ShardedUnit::refresh() {
  // The gradients are no longer needed, and the next step's activations need the space. A mapped file has it anyway.
  for (auto& flat : flats_) {
    flat.narrowed.reset();
    flat.summed = false;
    flat.written.assign(flat.written.size(), false);
    if (!gradients_offloaded(*context_, flat.owned)) flat.gradient.reset();
  }
  if (resident()) {
    for (auto& flat : flats_)
      if (!flat.full.is_same(flat.owned)) flat.full.copy_(flat.owned);
    return;
  }
  if (weights_ == Weights::gathering) await();
  if (weights_ == Weights::gathered) release();  // what was gathered is of the past
}

// Its content is garbage: what is reduced is written, and shards() clears what was not.
void ShardedUnit::own_gradient(FlatState& flat) {
  const bool offloaded = gradients_offloaded(*context_, flat.owned);
  const auto place = offloaded ? flat.owned.device() : context_->device;
  if (flat.gradient.defined() && flat.gradient.device().type() == place.type()) return;
  const MemoryScope scope(MemoryKind::gradients);
  flat.gradient = offloaded
                      ? context_->storage->zeros(flat.owned.numel(), context_->gradients, MemoryKind::gradients)
                      : at::empty({flat.owned.numel()}, at::TensorOptions(context_->device).dtype(context_->gradients));
}

// The buffer a micro-step adds to: the owned gradient itself where nothing is sharded.
at::Tensor& ShardedUnit::local_gradient(FlatState& flat) {
  if (resident()) {
    own_gradient(flat);
    return flat.gradient;
  }
  const MemoryScope scope(MemoryKind::gradients);
  if (!flat.whole_gradient.defined())
    flat.whole_gradient =
        at::empty({flat.layout->size}, at::TensorOptions(context_->device).dtype(context_->gradients));
  return flat.whole_gradient;
}

at::Tensor ShardedUnit::buffer(size_t index, size_t piece) {
  collect();  // the transport may still read the last micro-step's
  auto& flat = flats_[index];
  const auto& [weight, begin] = flat.layout->pieces[piece];
  SHADE_REQUIRE(!flat.final[piece], "the gradient of weight ", weight->name(),
                " is complete in this micro-batch, and its sum over ranks may be under way: what is added now would "
                "be missing there. Write it before GradientSink::complete, and in passes that say "
                "MethodPass::gradients before backward leaves its unit");
  return local_gradient(flat).narrow(0, begin, weight->numel()).view(weight->shape());
}

bool ShardedUnit::finish(size_t index, size_t piece) {
  SHADE_CHECK(!flats_[index].final[piece], "weight ", flats_[index].layout->pieces[piece].weight->name(),
              " was final before");
  flats_[index].final[piece] = true;
  for (const auto& flat : flats_)
    if (flat.layout->trainable && std::find(flat.final.begin(), flat.final.end(), false) != flat.final.end())
      return false;
  return true;
}

void ShardedUnit::reduce(bool last) {
  SHADE_CHECK(!reducing_, "unit ", layout_->name, " is being reduced already");
  last_ = last;
  for (auto& flat : flats_) {
    if (!flat.layout->trainable) continue;
    for (size_t i = 0; i < flat.written.size(); ++i) {
      if (flat.written[i]) continue;  // unused: its gradient is zero
      const auto& [weight, begin] = flat.layout->pieces[i];
      local_gradient(flat).narrow(0, begin, weight->numel()).zero_();
      flat.written[i] = true;
    }
    if (resident()) {
      if (last) replicate(flat);
    } else if (last || !context_->reduce_once) {
      scatter(flat);
      reducing_ = true;
    }
  }
}

// Sums over the shard axis: this micro-step's gradient, to its owners.
void ShardedUnit::scatter(FlatState& flat) {
  const MemoryScope scope(MemoryKind::communication);
  own_gradient(flat);
  auto source = flat.whole_gradient;
  if (source.scalar_type() != context_->wire) {
    source = flat.wire = source.to(context_->wire);
    flat.whole_gradient.reset();
  }
  auto target = flat.gradient;
  if (flat.summed) target = flat.incoming = at::empty_like(flat.gradient);
  for (const auto& [segment, mine, local] : shares(flat))
    flat.works.push_back(context_->groups.reduce.reduce_scatter(target.narrow(0, local, mine.size),
                                                                source.narrow(0, segment.begin, segment.size),
                                                                {.label = "reduce " + flat.layout->name}));
}

void ShardedUnit::collect() {
  if (!reducing_) return;
  reducing_ = false;
  for (auto& flat : flats_) {
    if (!flat.layout->trainable) continue;
    wait(flat.works, reduced_);
    flat.whole_gradient.reset();
    flat.wire.reset();
    flat.written.assign(flat.written.size(), false);
    if (flat.incoming.defined()) flat.gradient.add_(flat.incoming);
    flat.incoming.reset();
    flat.summed = true;
    if (last_) replicate(flat);
  }
}

// Sums the owned gradient over the copies of the model, once per logical step.
void ShardedUnit::replicate(FlatState& flat) {
  if (context_->groups.replicate.size() == 1 || flat.gradient.numel() == 0) return;
  auto sum = flat.gradient;
  if (sum.scalar_type() != context_->wire) {
    const MemoryScope scope(MemoryKind::communication);
    sum = flat.wire = sum.to(context_->wire);
  }
  flat.works.push_back(context_->groups.replicate.all_reduce(sum, {.label = "reduce " + flat.layout->name}));
}

void ShardedUnit::settle() {
  collect();
  for (auto& flat : flats_) {
    wait(flat.works, reduced_);
    if (flat.wire.defined()) flat.gradient.copy_(flat.wire);
    flat.wire.reset();
  }
}

void ShardedUnit::begin_step() {
  SHADE_CHECK(!reducing_, "unit ", layout_->name, " is still being reduced");
  for (auto& flat : flats_) {
    flat.written.assign(flat.written.size(), false);
    flat.summed = false;
    flat.narrowed.reset();
    flat.whole_gradient.reset();
  }
}

void ShardedUnit::forget_gradients() {
  for (auto& flat : flats_) {
    flat.narrowed.reset();
    flat.gradient.reset();
    flat.whole_gradient.reset();
  }
}

void ShardedUnit::begin_micro_step() {
  for (auto& flat : flats_) flat.final.assign(flat.final.size(), false);
}

void ShardedUnit::narrow(const EachPiece& before) {
  const int64_t kept = (int64_t{1} << 14) * at::get_num_threads();  // of a piece; what a core's cache holds of its part
  for (auto& flat : flats_) {
    if (!flat.layout->trainable) continue;
    SHADE_CHECK(flat.gradient.defined() && !flat.narrowed.defined(),
                "gradients are narrowed once, between wait() and updated()");
    const auto& wide = flat.gradient;
    const bool in_place = wide.scalar_type() == at::kDouble && context_->master == at::kFloat &&
                          (wide.is_meta() ? !nn::few_launches(wide) : wide.is_cpu());
    const bool moves = in_place && !wide.is_meta();
    auto* const memory = moves ? static_cast<std::byte*>(wide.data_ptr()) : nullptr;
    // Pieces are changed in a copy, so that memory is written by their narrow form alone.
    const auto copy = moves && before ? at::empty({kept}, wide.options()) : at::Tensor();
    if (moves && !before) narrow_in_place(wide, memory, 0, wide.numel());
    int64_t done = 0;
    for (const auto& [segment, mine, local] : shares(flat))
      for (const auto& run : runs_in(*flat.layout, mine))
        for (int64_t at = 0; before && at < run.size;) {
          // Up to a multiple of the piece's size in the weight: noise is drawn in chunks of its elements.
          const auto size = std::min(run.size - at, kept - (run.begin + at) % kept), first = local + run.at + at;
          SHADE_CHECK(first == done, "gradients are narrowed front to back, without gaps");
          auto piece = wide.narrow(0, first, size);
          if (moves) piece = copy.narrow(0, 0, size).copy_(piece);
          before(piece, *run.weight, run.begin + at);
          if (moves) narrow_in_place(piece, memory, first, first + size);
          at += size, done += size;
        }
    SHADE_CHECK(!before || done == wide.numel(), "all gradients are narrowed");
    flat.narrowed = in_place ? wide.view(context_->master).narrow(0, 0, wide.numel()) : wide.to(context_->master);
  }
}

void ShardedUnit::append(const FlatState& flat, std::vector<LocalShard>& out) const {
  size_t i = 0;
  for (const auto& [segment, mine, local] : shares(flat))
    out.push_back({.name = flat.layout->shard_name(i++),
                   .master = flat.owned.narrow(0, local, mine.size),
                   .gradient = (flat.narrowed.defined() ? flat.narrowed : flat.gradient).narrow(0, local, mine.size),
                   .offset = mine.begin,
                   .runs = runs_in(*flat.layout, mine)});
}

std::vector<LocalShard> ShardedUnit::shards() {
  std::vector<LocalShard> out;
  for (auto& flat : flats_) {
    if (!flat.layout->trainable) continue;
    if (!flat.gradient.defined()) own_gradient(flat);
    if (flat.narrowed.defined()) {  // as it is: the memory of `gradient` is in use for it
      append(flat, out);
      continue;
    }
    // An unused weight has a gradient of zero.
    if (!resident() && !flat.summed) flat.gradient.zero_();
    for (size_t i = 0; resident() && i < flat.written.size(); ++i)
      if (!flat.written[i])
        flat.gradient.narrow(0, flat.layout->pieces[i].begin, flat.layout->pieces[i].weight->numel()).zero_();
    if (flat.gradient.device().type() != flat.owned.device().type()) {  // offloaded: it goes where its weights are
      const auto there = std::exchange(
          flat.gradient, nn::host_empty(flat.gradient.numel(), flat.gradient.scalar_type(), flat.gradient.device()));
      flat.gradient.copy_(there, /*non_blocking=*/true);
    }
    append(flat, out);
  }
  return out;
}

Groups connect_groups(comm::World& world, const Policy& policy, const std::string& prefix) {
  const comm::Mesh mesh(world, {{"replicate", policy.replicate}, {"shard", policy.shard}});
  const auto shape = text(" ", policy.replicate, "x", policy.shard);
  return {.policy = policy,
          .gather = mesh.group("shard", prefix + "gather" + shape),
          .reduce = mesh.group("shard", prefix + "reduce" + shape),
          .replicate = mesh.group("replicate", prefix + "reduce" + shape),
          .control = world.control(prefix + "control" + shape)};
}

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

namespace {

class DeviceStorage : public Storage {
 public:
  explicit DeviceStorage(at::Device device, bool pinned) : options_(device), pinned_(pinned) {}
  at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind kind) override {
    const MemoryScope scope(kind);
    return at::zeros({elements}, options_.dtype(type).pinned_memory(pinned_));
  }

 private:
  at::TensorOptions options_;
  bool pinned_;
};

class MappedStorage : public Storage {
 public:
  explicit MappedStorage(std::string folder) : folder_(std::move(folder)) {
    if (folder_.empty()) folder_ = temporary_root().string();
    file_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    SHADE_REQUIRE(file_ >= 0, "cannot make a file for offloading in ", folder_, ": ", std::strerror(errno),
                  "; choose another folder with --offload-folder");
  }
  ~MappedStorage() override { close(file_); }  // mappings keep the file

  at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind) override {
    const auto bytes = static_cast<size_t>(elements) * c10::elementSize(type);
    if (bytes == 0) return at::zeros({0}, type);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto length = (bytes + page - 1) / page * page;
    const int full = posix_fallocate(file_, end_, static_cast<off_t>(length));
    SHADE_REQUIRE(full == 0, "no room for ", to_string(Bytes{static_cast<int64_t>(length)}), " of offloaded state in ",
                  folder_, ": ", std::strerror(full), "; choose another folder with --offload-folder");
    void* address = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, file_, end_);
    SHADE_CHECK(address != MAP_FAILED, "cannot map offloaded state: ", std::strerror(errno));
    end_ += static_cast<off_t>(length);
    return at::from_blob(address, {elements}, [length](void* start) { munmap(start, length); }, type);
  }

 private:
  std::string folder_;
  int file_ = -1;
  off_t end_ = 0;
};

// A plan's: what is offloaded has a shape, and takes no memory of the device.
class PlannedStorage : public Storage {
 public:
  at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind) override {
    const auto bytes = static_cast<size_t>(elements) * c10::elementSize(type);
    c10::Storage elsewhere(c10::Storage::use_byte_size_t{}, bytes, c10::DataPtr(nullptr, at::kMeta),
                           /*allocator=*/nullptr, /*resizable=*/false);
    auto out = at::detail::make_tensor<c10::TensorImpl>(
        std::move(elsewhere), c10::DispatchKeySet(c10::DispatchKey::Meta), c10::scalarTypeToTypeMeta(type));
    out.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
    return out;
  }
};

}  // namespace

std::unique_ptr<Storage> make_storage(const ShardConfig& config, at::Device device) {
  if (!config.offload) return std::make_unique<DeviceStorage>(device, false);
  if (device.is_meta()) return std::make_unique<PlannedStorage>();
  if (device.is_cpu()) return std::make_unique<MappedStorage>(config.offload_folder);
  return std::make_unique<DeviceStorage>(at::kCPU, true);
}

}  // namespace shade::shard
