#include "shade/comm/backends/simulated.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <bit>
#include <condition_variable>
#include <functional>
#include <numeric>

#include "shade/base/error.h"
#include "shade/comm/exchange/algorithms.h"

namespace shade::comm {

Seconds CostModel::price(Collective kind, Bytes payload, std::span<const int> global_ranks) const {
  const auto ranks = static_cast<double>(global_ranks.size());
  if (global_ranks.size() < 2) return Seconds(0);
  const auto host = [this](int rank) { return rank / ranks_per_host; };
  const bool one_host = std::all_of(global_ranks.begin(), global_ranks.end(),
                                    [&](int rank) { return host(rank) == host(global_ranks.front()); });
  const Link& link = one_host ? inside : between;
  const auto rounds = static_cast<double>(std::bit_width(global_ranks.size() - 1));
  const double bytes = static_cast<double>(payload.count);
  const Seconds ring = link.alpha * (ranks - 1) + Seconds(bytes * (ranks - 1) / ranks / link.bytes_per_second);
  switch (kind) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all: return ring;
    case Collective::all_reduce: return 2 * ring;
    case Collective::broadcast: return link.alpha * rounds + Seconds(bytes / link.bytes_per_second);
    case Collective::barrier: return 2 * link.alpha * rounds;
  }
  return Seconds(0);
}

Seconds Journal::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

void Journal::compute(Seconds time) {
  const std::lock_guard lock(mutex_);
  now_ += time;
}

std::vector<SimulatedOperation> Journal::operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

// Ranks arrive with their tensors; the last one does the exchange for all, then all leave.
class Meeting {
 public:
  explicit Meeting(int size) : seats_(static_cast<size_t>(size)) {}

  struct Seat {
    at::Tensor output, input;
    std::vector<int64_t> output_splits, input_splits;
  };
  using Exchange = std::function<void(std::vector<Seat>&)>;

  void meet(int rank, Seat seat, const Exchange& exchange) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !leaving_; });
    seats_[static_cast<size_t>(rank)] = std::move(seat);
    if (++present_ == seats_.size()) {
      exchange(seats_);
      leaving_ = true;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [this] { return leaving_; });
    }
    if (--present_ == 0) {
      leaving_ = false;
      changed_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  size_t present_ = 0;
  bool leaving_ = false;
};

std::shared_ptr<Meeting> make_meeting(int size) { return std::make_shared<Meeting>(size); }

class SimulatedBackend : public c10d::Backend {
 public:
  SimulatedBackend(int rank, int size, SimulatedOptions options)
      : c10d::Backend(rank, size), options_(std::move(options)) {
    SHADE_CHECK(options_.journal, "a simulated backend needs a journal");
    SHADE_CHECK(options_.global_ranks.size() == static_cast<size_t>(size), "expected ", size, " global ranks");
  }

  const std::string getBackendName() const override { return "simulated"; }

  c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor& output, at::Tensor& input,
                                                   const c10d::AllgatherOptions&) override {
    exchange(
        {output, input, {}, {}},
        [](std::vector<Meeting::Seat>& seats) {
          std::vector<at::Tensor> parts;
          for (const auto& seat : seats) parts.push_back(seat.input);
          const auto whole = at::cat(parts);
          for (auto& seat : seats) seat.output.copy_(whole);
        },
        [&] { output.view({getSize(), -1}).copy_(input.unsqueeze(0).expand({getSize(), -1})); });
    return record(Collective::all_gather, output, 1);
  }

  c10::intrusive_ptr<c10d::Work> reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                                       const c10d::ReduceScatterOptions& opts) override {
    const auto op = ours(opts.reduceOp);
    exchange(
        {output, input, {}, {}},
        [op](std::vector<Meeting::Seat>& seats) {
          const auto sum = reduced(seats, op);
          for (size_t r = 0; r < seats.size(); ++r)
            seats[r].output.copy_(
                sum.narrow(0, static_cast<int64_t>(r) * seats[r].output.numel(), seats[r].output.numel()));
        },
        [&] { output.copy_(alike(input.narrow(0, getRank() * output.numel(), output.numel()), op)); });
    return record(Collective::reduce_scatter, input, 1);
  }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& opts) override {
    auto& tensor = tensors.at(0);
    const auto op = ours(opts.reduceOp);
    exchange(
        {tensor, tensor, {}, {}},
        [op](std::vector<Meeting::Seat>& seats) {
          const auto sum = reduced(seats, op);
          for (auto& seat : seats) seat.output.copy_(sum);
        },
        [&] { tensor.copy_(alike(tensor, op)); });
    return record(Collective::all_reduce, tensor, 2);
  }

  c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor& output, at::Tensor& input,
                                                   std::vector<int64_t>& output_splits,
                                                   std::vector<int64_t>& input_splits,
                                                   const c10d::AllToAllOptions&) override {
    exchange(
        {output, input, output_splits, input_splits},
        [](std::vector<Meeting::Seat>& seats) {
          for (size_t to = 0; to < seats.size(); ++to) {
            std::vector<at::Tensor> parts;
            for (const auto& seat : seats) parts.push_back(seat.input.split_with_sizes(seat.input_splits)[to]);
            seats[to].output.copy_(at::cat(parts));
          }
        },
        [&] {
          const auto mine = input.split_with_sizes(input_splits)[static_cast<size_t>(getRank())];
          output.copy_(mine.repeat({getSize()}).narrow(0, 0, output.numel()));
        });
    return record(Collective::all_to_all, input, 1);
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& opts) override {
    auto& tensor = tensors.at(0);
    const auto root = static_cast<size_t>(opts.rootRank);
    exchange(
        {tensor, tensor, {}, {}},
        [root](std::vector<Meeting::Seat>& seats) {
          for (auto& seat : seats)
            if (!seat.output.is_same(seats[root].input)) seat.output.copy_(seats[root].input);
        },
        [] {});
    return record(Collective::broadcast, tensor, getRank() == opts.rootRank ? 1 : 0);
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions&) override {
    exchange({}, [](std::vector<Meeting::Seat>&) {}, [] {});
    return record(Collective::barrier, {}, 0);
  }

  // Of a plan (World::Counted::exchange): nothing arrives, and nothing is priced.
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>&, int, int) override { return message(); }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>&, int, int) override { return message(); }

 private:
  c10::intrusive_ptr<c10d::Work> message() const { return c10::make_intrusive<Done>(options_.journal, Seconds(0)); }

  // Complete from the start; waiting for it moves the rank's simulated clock to its end.
  class Done : public c10d::Work {
   public:
    Done(std::shared_ptr<Journal> journal, Seconds end) : journal_(std::move(journal)), end_(end) { finish(); }
    bool wait(std::chrono::milliseconds) override {
      const std::lock_guard lock(journal_->mutex_);
      journal_->now_ = std::max(journal_->now_, end_);
      return true;
    }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return {}; }

   private:
    std::shared_ptr<Journal> journal_;
    Seconds end_;
  };

  static Reduce ours(const c10d::ReduceOp& op) {
    if (op == c10d::ReduceOp::MAX) return Reduce::max;
    if (op == c10d::ReduceOp::MIN) return Reduce::min;
    SHADE_CHECK(op == c10d::ReduceOp::SUM, "the simulated backend sums, or takes the maximum or minimum");
    return Reduce::sum;
  }

  static at::Tensor reduced(const std::vector<Meeting::Seat>& seats, Reduce op) {
    std::vector<at::Tensor> parts;
    for (const auto& seat : seats) parts.push_back(seat.input);
    auto sum = at::empty_like(parts[0]);
    exchange::reduce_in_order(sum, parts, op);
    return sum;
  }

  // What a reduction over W equal inputs gives.
  at::Tensor alike(const at::Tensor& input, Reduce op) const { return op == Reduce::sum ? input * getSize() : input; }

  void exchange(Meeting::Seat seat, const Meeting::Exchange& meet, const std::function<void()>& solo) {
    const bool shapes_only = seat.input.defined() && seat.input.is_meta();
    if (options_.meeting)
      options_.meeting->meet(getRank(), std::move(seat), meet);
    else if (!shapes_only)
      solo();
  }

  c10::intrusive_ptr<c10d::Work> record(Collective kind, const at::Tensor& whole, int64_t crossings) {
    const Bytes payload{whole.defined() ? static_cast<int64_t>(whole.nbytes()) : 0};
    const auto price = options_.cost.price(kind, payload, options_.global_ranks);
    auto& journal = *options_.journal;
    const std::lock_guard lock(journal.mutex_);
    const auto start = std::max(journal.now_, free_);
    free_ = start + price;
    const int64_t others = kind == Collective::broadcast ? payload.count : payload.count - payload.count / getSize();
    journal.operations_.push_back({kind, payload, {others * crossings}, getSize(), start, free_});
    return c10::make_intrusive<Done>(options_.journal, free_);
  }

  SimulatedOptions options_;
  Seconds free_{0};  // when this group's link is free again: operations of one group queue
};

c10::intrusive_ptr<c10d::Backend> make_simulated(int rank, int size, SimulatedOptions options) {
  return c10::make_intrusive<SimulatedBackend>(rank, size, std::move(options));
}

}  // namespace shade::comm
