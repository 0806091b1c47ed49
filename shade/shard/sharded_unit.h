// One unit's tensors on one rank: what it owns, what it gathered, and gradients on their way.
//
//   weights    sharded --gather--> gathering --await--> gathered --release--> sharded
//   gradients  none --buffer--> local --reduce--> reducing --collect--> none; the owners have it, settle() says when
//
// Every other transition is a fault of the caller and throws. With a shard axis of one rank the weights are always
// gathered, and the local gradient is the owned one.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shade/base/memory_scope.h"
#include "shade/comm/mesh.h"
#include "shade/comm/partition.h"
#include "shade/nn/parameters.h"
#include "shade/shard/config.h"

namespace shade::shard {

// The groups a strategy needs. Separate ones, so that gathers, reductions and small talk don't queue behind each other.
struct Groups {
  Policy policy;
  comm::Group gather, reduce;  // along the shard axis
  comm::Group replicate;       // along the other axis
  comm::Group control;         // all ranks; CPU tensors
};

// Collective. Several runtimes, one after the other, may share the result; a world connects each mesh once, or once for
// each `prefix` of the groups' names.
Groups connect_groups(comm::World& world, const Policy& policy, const std::string& prefix = "");

// Which weights live together in which flat buffer, and which part of it each rank owns. Pure arithmetic.
struct Piece {
  nn::Weight* weight;
  int64_t begin;  // in the flat buffer
};

// A segment, this rank's part of it (both in the coordinates of the buffer), and where that part lies in what it owns.
struct Share {
  comm::Slice segment, owned;
  int64_t local;
};

// Weights end to end, all trainable or all frozen. Its elements are dealt to the ranks segment by segment
// (comm/partition.h), so that a segment is a contiguous part of the buffer and a separate collective.
struct Flat {
  std::string name;  // "layers.3", "layers.3.frozen"
  bool trainable = true;
  std::vector<Piece> pieces;
  int64_t size = 0;
  std::vector<comm::Slice> segments;

  // This rank's part of a segment, in the coordinates of the buffer.
  comm::Slice owned(size_t segment, int ranks, int rank) const;
  std::vector<Share> shares(int ranks, int rank) const;  // of all segments, in order
  int64_t owned(int ranks, int rank) const;              // elements of all segments
  std::string shard_name(size_t segment) const { return name + "#" + std::to_string(segment); }
};

// What is gathered and released together: one or more units of the model.
struct UnitLayout {
  std::string name;
  std::vector<nn::UnitId> members;
  std::vector<Flat> flats;  // trainable, frozen; without the empty ones
  int64_t elements() const;
};

struct Layout {
  std::vector<UnitLayout> units;
  std::vector<int> unit_of;  // by nn::UnitId

  int64_t owned(int ranks, int rank, bool trainable) const;
};

Layout make_layout(nn::Parameters& parameters, const ShardConfig& config, at::Device device = at::kCPU);

// A contiguous run of one weight's elements: [begin, begin + size) of the weight lies at `at` of the range asked for.
struct Run {
  nn::Weight* weight;
  int64_t begin, size, at;
};
std::vector<Run> runs_in(const Flat& flat, comm::Slice range);

// Where shards and optimizer state live: memory of the device, or, offloaded, a mapped file (CPU) or host memory
// (CUDA).
class Storage {
 public:
  virtual ~Storage() = default;
  virtual at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind kind) = 0;
};

// Offloaded on a CPU: the file has no name, so it goes with the process however that ends; its pages are the system's
// to write out when memory is short. Throws, naming the folder, when there is no room.
std::unique_ptr<Storage> make_storage(const ShardConfig& config, at::Device device);

// What this rank owns of a segment of a trainable flat buffer: what noise, optimizer and checkpoints work on.
struct LocalShard {
  std::string name;     // stable for a wrap policy and segment size
  at::Tensor master;    // fp32, flat
  at::Tensor gradient;  // flat: the sum over all ranks' samples. Fp32, or fp64 of exact sums until they are narrowed
  int64_t offset = 0;   // of the first element in the flat buffer
  std::vector<Run> runs{};  // which elements of which weights these are
};

// What all units of a runtime share.
struct UnitContext {
  Groups groups;
  Storage* storage = nullptr;
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;    // of gathered weights
  at::ScalarType master = at::kFloat;     // of what is owned
  at::ScalarType gradients = at::kFloat;  // of their sums
  at::ScalarType wire = at::kFloat;       // of gradients on the way
  bool reduce_once = false;
  bool offload = false;

  bool offloaded() const {
    return offload && device.is_cpu();
  }  // gradients as well; of another device they move when shards() asks for them
};

class ShardedUnit {
 public:
  enum class Weights { sharded, gathering, gathered };

  ShardedUnit(const UnitLayout& layout, const UnitContext& context);

  const UnitLayout& layout() const { return *layout_; }
  Weights weights() const { return weights_; }
  bool resident() const { return context_->groups.gather.size() == 1; }  // gathered for ever
  Bytes gradient_bytes() const;                                          // of this micro-step's, here or on their way

  void gather();                             // issues
  std::vector<comm::TrafficRecord> await();  // blocks; binds the weights
  void release();
  void refresh();  // the owned weights changed

  at::Tensor buffer(size_t flat, size_t piece);
  bool written(size_t flat, size_t piece) const { return !reducing_ && flats_[flat].written[piece]; }
  void mark_written(size_t flat, size_t piece) { flats_[flat].written[piece] = true; }
  // Nothing more will be added in this micro-step. True: that was the last weight, reduce() is due.
  bool finish(size_t flat, size_t piece);
  void reduce(bool last_micro_step);  // issues, if there is anything to send
  bool reducing() const { return reducing_; }
  void collect();           // blocks until the owners have this micro-step's; frees the whole gradient
  void settle();            // blocks until the owned gradient is complete
  void begin_step();        // gradients of the last step are forgotten
  void forget_gradients();  // and their memory is given up
  void begin_micro_step();  // nothing is final
  std::vector<comm::TrafficRecord> drain_reductions() { return std::exchange(reduced_, {}); }

  // The gradients of this step to the type of what is owned: nothing more is added to them. Each piece of a weight's,
  // from element `begin` on, is passed to `before` first, if there is one.
  using EachPiece = std::function<void(const at::Tensor& piece, const nn::Weight& weight, int64_t begin)>;
  void narrow(const EachPiece& before = {});

  // Of trainable weights. Gradients on their way from a device to offloaded weights may not have arrived: the caller
  // waits, once for all units.
  std::vector<LocalShard> shards();

  struct FlatState {
    const Flat* layout;
    at::Tensor owned;             // master values of this rank, segment after segment
    at::Tensor full{};            // while gathering or gathered
    at::Tensor gradient{};        // owned; summed over micro-steps
    at::Tensor narrowed{};        // the same in the weights' type, once nothing more is added
    at::Tensor whole_gradient{};  // of this micro-step (of all, with reduce_once); undefined while there is none
    at::Tensor incoming{}, wire{};
    bool summed = false;  // `gradient` holds the sum of earlier micro-steps
    std::vector<bool> written{}, final{};
    std::vector<comm::Work> gathers{}, works{};
  };
  const std::vector<FlatState>& flats() const { return flats_; }
  std::vector<Share> shares(const FlatState& flat) const;

 private:
  void bind(FlatState& flat);
  void append(const FlatState& flat, std::vector<LocalShard>& out) const;
  void own_gradient(FlatState& flat);
  at::Tensor& local_gradient(FlatState& flat);
  void scatter(FlatState& flat);
  void replicate(FlatState& flat);

  const UnitLayout* layout_;
  const UnitContext* context_;
  std::vector<FlatState> flats_;
  Weights weights_ = Weights::sharded;
  bool reducing_ = false, last_ = false;
  std::vector<comm::TrafficRecord> reduced_;
};

}  // namespace shade::shard
