#include <ATen/ATen.h>
#include <pthread.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "shade/base/memory_scope.h"
#include "shade/comm/errors.h"
#include "shade/comm/exchange/algorithms.h"
#include "shade/comm/transport.h"

namespace shade::comm {
namespace {

// A thread that carries out tasks one after another: a group's operations in the order they were issued.

// Thread-safe. Tasks must not throw. The destructor runs what is queued, then joins.
class Lane {
 public:
  explicit Lane(const std::string& name);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void submit(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool closing_ = false;
  std::thread thread_;
};

Lane::Lane(const std::string& name) : thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Lane::submit(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Lane::run() {
  const MemoryScope scope(MemoryKind::communication);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // its tensors are freed before the next wait
    lock.lock();
  }
}

class LanePending : public Pending {
 public:
  LanePending() : result_(promise_.get_future().share()) {}

  void wait() override { result_.get(); }
  bool done() const override { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }

  void succeed() { promise_.set_value(); }
  void fail(std::exception_ptr reason) { promise_.set_exception(std::move(reason)); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> result_;
};

// The same error, saying which operation it struck.
std::exception_ptr explained(const Operation& op, const std::string& group, std::exception_ptr cause) {
  const auto where = text(to_string(op.kind), op.label.empty() ? "" : " ", op.label, " of group ", group, ": ");
  try {
    std::rethrow_exception(std::move(cause));
  } catch (const PeerLost& fault) {
    return std::make_exception_ptr(PeerLost(where + fault.what()));
  } catch (const std::exception& fault) {
    return std::make_exception_ptr(CommError(where + fault.what()));
  }
}

class Exchange : public Transport {
 public:
  Exchange(c10::intrusive_ptr<c10d::Backend> backend, int rank, std::vector<int> global_ranks, std::string name,
           Bytes segment)
      : peers_(std::move(backend), rank, std::move(global_ranks)), name_(std::move(name)), segment_(segment) {
    if (peers_.size() > 1) lane_ = std::make_unique<Lane>("lane " + name_);
  }

  ~Exchange() override {
    // A caller that destroys a group with operations under way no longer needs them; a lane blocked on a peer that
    // never comes must not hang the destructor.
    if (lane_ && open_.load() > 0)
      abort(std::make_exception_ptr(CommError(text("group ", name_, " was destroyed with operations under way"))));
  }

  std::shared_ptr<Pending> submit(Operation op, Hooks hooks) override {
    for (const auto* tensor : {&op.output, &op.input})  // alone, nothing is sent
      SHADE_REQUIRE(!lane_ || !tensor->defined() || tensor->is_cpu(), "group ", name_, ": ", to_string(op.kind),
                    " of a ", tensor->device(), " tensor; the gloo backend moves CPU tensors");
    auto pending = std::make_shared<LanePending>();
    ++open_;
    auto task = [this, pending, op = std::move(op), hooks = std::move(hooks)]() mutable {
      hooks.started(Clock::now());
      std::exception_ptr fault;
      try {
        if (auto reason = peers_.aborted()) std::rethrow_exception(reason);
        const at::NoGradGuard no_graph;
        exchange::carry_out(peers_, op, segment_);
      } catch (...) {
        fault = explained(op, name_, std::current_exception());
        peers_.abort(std::current_exception());  // messages are out of step: nothing after this can be trusted
      }
      hooks.ended(Clock::now(), peers_.take_sent());
      --open_;
      op = {};  // tensors are released before the waiter wakes
      if (fault)
        pending->fail(fault);
      else
        pending->succeed();
    };
    if (lane_)
      lane_->submit(std::move(task));
    else
      task();
    return pending;
  }

  void refuse(std::exception_ptr reason) override { peers_.abort(std::move(reason)); }
  void abort(std::exception_ptr reason) override { peers_.abort(std::move(reason)); }

 private:
  Peers peers_;
  std::string name_;
  Bytes segment_;
  std::atomic<int> open_{0};
  std::unique_ptr<Lane> lane_;  // last: joined before what it uses goes
};

}  // namespace

void exchange::carry_out(Peers& peers, Operation& op, Bytes segment) {
  switch (op.kind) {
    case Collective::all_gather: return all_gather(peers, op.output, op.input);
    case Collective::reduce_scatter: return reduce_scatter(peers, op.output, op.input, op.reduce, segment);
    case Collective::all_reduce: return all_reduce(peers, op.output, op.reduce, segment);
    case Collective::all_to_all: return all_to_all(peers, op.output, op.input, op.output_splits, op.input_splits);
    case Collective::broadcast: return broadcast(peers, op.output, op.root);
    case Collective::barrier: return barrier(peers);
  }
}

std::unique_ptr<Transport> make_exchange(c10::intrusive_ptr<c10d::Backend> backend, int rank,
                                         std::vector<int> global_ranks, std::string name, Bytes segment) {
  return std::make_unique<Exchange>(std::move(backend), rank, std::move(global_ranks), std::move(name), segment);
}

}  // namespace shade::comm
