#include "shade/comm/group.h"

#include <numeric>

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/comm/errors.h"
#include "shade/comm/partition.h"

namespace shade::comm {

struct Work::State {
  std::shared_ptr<Pending> pending;
  std::shared_ptr<Activity> activity;
  std::shared_ptr<TrafficLog::Entry> entry;
  std::string description;
};

void Work::wait() const {
  if (!state_) return;
  if (state_->pending->done()) {
    state_->pending->wait();  // nothing to wait for, but it may have failed; on a device: orders the stream
    return;
  }
  const Span span(SpanName::comm_wait);
  const auto begin = Clock::now();
  state_->activity->begin_wait(state_->description);
  const auto end = [&] {
    state_->activity->end_wait();
    state_->entry->waited(Clock::now() - begin);
  };
  try {
    state_->pending->wait();
  } catch (...) {
    end();
    throw;
  }
  end();
}

std::optional<TrafficRecord> Work::record() const {
  return state_ ? std::optional(state_->entry->copy()) : std::nullopt;
}

bool Work::done() const { return !state_ || state_->pending->done(); }

namespace {

void check_flat(const at::Tensor& tensor, const char* what, const char* operation) {
  SHADE_REQUIRE(tensor.defined(), operation, ": the ", what, " tensor is undefined");
  SHADE_REQUIRE(tensor.is_contiguous(), operation, ": the ", what, " tensor of sizes ", tensor.sizes(),
                " is not contiguous; pass a flat buffer or call contiguous() first");
}

void check_slice(const at::Tensor& slice, const at::Tensor& whole, int ranks, int rank, const char* operation) {
  const auto expected = slice_of(whole.numel(), ranks, rank).size;
  SHADE_REQUIRE(slice.numel() == expected, operation, ": rank ", rank, " of ", ranks, " owns ", expected, " of ",
                whole.numel(), " elements, but its slice has ", slice.numel(), "; use comm::slice_of");
  SHADE_REQUIRE(slice.device() == whole.device(), operation, ": tensors on ", slice.device(), " and ", whole.device(),
                "; expected one device");
}

bool widens(at::ScalarType from, at::ScalarType to) {
  return from == to || (to == at::kFloat && (from == at::kBFloat16 || from == at::kHalf));
}

// Empty splits mean equal parts; given ones must cover the tensor.
void complete_splits(std::vector<int64_t>& splits, const at::Tensor& tensor, int ranks, const char* what) {
  if (splits.empty()) {
    SHADE_REQUIRE(tensor.numel() % ranks == 0, "all_to_all: ", tensor.numel(), " ", what, " elements don't divide by ",
                  ranks, " ranks; give ", what, "_splits");
    splits.assign(static_cast<size_t>(ranks), tensor.numel() / ranks);
  }
  const auto total = std::accumulate(splits.begin(), splits.end(), int64_t{0});
  SHADE_REQUIRE(splits.size() == static_cast<size_t>(ranks) && total == tensor.numel(), "all_to_all: ", splits.size(),
                " ", what, "_splits of ", total, " elements; expected ", ranks, " of ", tensor.numel());
}

}  // namespace

Group::Group(Parts parts) : parts_(std::make_shared<Parts>(std::move(parts))) {
  SHADE_CHECK(parts_->transport && parts_->activity && parts_->traffic, "a group needs all its parts");
}

const Group::Parts& Group::parts() const {
  SHADE_REQUIRE(parts_, "this group was never made; get one from World::group or Mesh::group");
  return *parts_;
}

int Group::rank() const { return parts().rank; }
int Group::size() const { return static_cast<int>(parts().global_ranks.size()); }
const std::string& Group::name() const { return parts().name; }
const std::vector<int>& Group::global_ranks() const { return parts().global_ranks; }

Seals& Group::seals() const {
  SHADE_CHECK(parts().seals, "group ", name(), " has no secret");
  return *parts().seals;
}

Work Group::submit(Operation operation) const {
  const auto& my = parts();
  auto state = std::make_shared<Work::State>();
  state->activity = my.activity;
  state->description = text(to_string(operation.kind), operation.label.empty() ? "" : " ", operation.label,
                            my.name.empty() ? "" : " of group ", my.name);
  state->entry = my.traffic->add({.kind = operation.kind,
                                  .label = operation.label,
                                  .group = my.name,
                                  .ranks = size(),
                                  .payload = operation.payload(),
                                  .enqueued = Clock::now()});
  my.activity->issued(state->description);
  const auto device = operation.device();
  const bool flies = !device.is_cpu() && !device.is_meta();
  const auto flight = flies ? my.activity->begin_flight(state->description) : 0;
  Hooks hooks{.started = [entry = state->entry](Clock::time_point at) { entry->started(at); },
              .ended =
                  [entry = state->entry, activity = my.activity, flies, flight](Clock::time_point at, Bytes wire) {
                    entry->ended(at, wire);
                    flies ? activity->end_flight(flight) : activity->finished();
                  },
              .waited = [entry = state->entry](Seconds time) { entry->waited(time); }};
  try {
    state->pending = my.transport->submit(std::move(operation), std::move(hooks));
  } catch (...) {
    if (flies) my.activity->end_flight(flight);
    throw;
  }
  return Work(std::move(state));
}

Work Group::all_gather(at::Tensor output, at::Tensor input, GatherOptions options) const {
  check_flat(output, "output", "all_gather");
  check_flat(input, "input", "all_gather");
  check_slice(input, output, size(), rank(), "all_gather");
  SHADE_REQUIRE(input.scalar_type() == output.scalar_type(), "all_gather: input is ", input.scalar_type(),
                ", output is ", output.scalar_type(), "; expected the same dtype");
  return submit({.kind = Collective::all_gather,
                 .output = output.view(-1),
                 .input = input.view(-1),
                 .label = std::move(options.label)});
}

Work Group::reduce_scatter(at::Tensor output, at::Tensor input, ReduceOptions options) const {
  check_flat(output, "output", "reduce_scatter");
  check_flat(input, "input", "reduce_scatter");
  check_slice(output, input, size(), rank(), "reduce_scatter");
  SHADE_REQUIRE(widens(input.scalar_type(), output.scalar_type()), "reduce_scatter: cannot reduce ",
                input.scalar_type(), " into ", output.scalar_type(),
                "; expected the same dtype, or fp32 for the output");
  return submit({.kind = Collective::reduce_scatter,
                 .output = output.view(-1),
                 .input = input.view(-1),
                 .reduce = options.reduce,
                 .label = std::move(options.label)});
}

Work Group::all_reduce(at::Tensor tensor, ReduceOptions options) const {
  check_flat(tensor, "only", "all_reduce");
  const auto flat = tensor.view(-1);
  return submit({.kind = Collective::all_reduce,
                 .output = flat,
                 .input = flat,
                 .reduce = options.reduce,
                 .label = std::move(options.label)});
}

Work Group::broadcast(at::Tensor tensor, BroadcastOptions options) const {
  check_flat(tensor, "only", "broadcast");
  SHADE_REQUIRE(options.root >= 0 && options.root < size(), "broadcast: root ", options.root, " is not in a group of ",
                size(), " ranks");
  const auto flat = tensor.view(-1);
  return submit({.kind = Collective::broadcast,
                 .output = flat,
                 .input = flat,
                 .root = options.root,
                 .label = std::move(options.label)});
}

Work Group::all_to_all(at::Tensor output, at::Tensor input, AllToAllOptions options) const {
  check_flat(output, "output", "all_to_all");
  check_flat(input, "input", "all_to_all");
  SHADE_REQUIRE(input.scalar_type() == output.scalar_type(), "all_to_all: input is ", input.scalar_type(),
                ", output is ", output.scalar_type(), "; expected the same dtype");
  complete_splits(options.output_splits, output, size(), "output");
  complete_splits(options.input_splits, input, size(), "input");
  return submit({.kind = Collective::all_to_all,
                 .output = output.view(-1),
                 .input = input.view(-1),
                 .output_splits = std::move(options.output_splits),
                 .input_splits = std::move(options.input_splits),
                 .label = std::move(options.label)});
}

Work Group::barrier(BarrierOptions options) const {
  return submit({.kind = Collective::barrier, .label = std::move(options.label)});
}

void Group::settle() const { parts().transport->settle(); }
void Group::close() const { parts().transport->close(); }
void Group::refuse(std::exception_ptr reason) const { parts().transport->refuse(std::move(reason)); }
void Group::abort(std::exception_ptr reason) const { parts().transport->abort(std::move(reason)); }

}  // namespace shade::comm
