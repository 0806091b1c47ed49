#include "shade/comm/exchange/peers.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

// Gloo's own time limits are not ours: the watchdog ends a job whose peer is gone, however long a message may take.
constexpr auto kNoLimit = std::chrono::hours(24 * 30);

int tag_of(uint32_t count) { return static_cast<int>(count & 0x3fffffff); }

// "[.../pair.cc:538] Connection closed by peer [127.0.0.1]:4242. This may be ..." -> the part that says something.
std::string gloo_reason(std::string what) {
  if (const auto bracket = what.find("] "); what.starts_with("[") && bracket != std::string::npos)
    what.erase(0, bracket + 2);
  return what.substr(0, what.find(". "));
}

}  // namespace

Peers::Peers(c10::intrusive_ptr<c10d::Backend> backend, int rank, std::vector<int> global_ranks)
    : backend_(std::move(backend)),
      rank_(rank),
      global_ranks_(std::move(global_ranks)),
      sent_(global_ranks_.size()),
      received_(global_ranks_.size()) {}

Peers::~Peers() = default;

template <class Issue>
Transfer Peers::begin(int peer, const char* verb, Issue issue) {
  {
    const std::lock_guard lock(mutex_);
    if (reason_) std::rethrow_exception(reason_);
  }
  Transfer transfer{{}, peer, verb};
  try {
    transfer.work = issue();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& fault) {
    lose(transfer, gloo_reason(fault.what()));
  }
  const std::lock_guard lock(mutex_);
  under_way_.insert(transfer.work);
  if (reason_) transfer.work->abort();
  return transfer;
}

void Peers::lose(const Transfer& transfer, const std::string& fault) const {
  throw PeerLost(text("lost rank ", global_ranks_[static_cast<size_t>(transfer.peer)], " while ", transfer.verb,
                      " it (", fault, ")"));
}

Transfer Peers::send(const at::Tensor& tensor, int to) {
  if (tensor.numel() == 0) return {};
  bytes_.count += static_cast<int64_t>(tensor.nbytes());
  return begin(to, "sending to", [&] {
    std::vector<at::Tensor> tensors{tensor};
    return backend_->send(tensors, to, tag_of(sent_[static_cast<size_t>(to)]++));
  });
}

Transfer Peers::recv(const at::Tensor& tensor, int from) {
  if (tensor.numel() == 0) return {};
  return begin(from, "receiving from", [&] {
    std::vector<at::Tensor> tensors{tensor};
    return backend_->recv(tensors, from, tag_of(received_[static_cast<size_t>(from)]++));
  });
}

void Peers::wait(Transfer& transfer) {
  if (!transfer.work) return;
  std::string fault;
  std::exception_ptr changed;  // a message that arrived isn't what the peer sent
  bool completed = false;
  try {
    completed = transfer.work->wait(kNoLimit);
  } catch (const PeerLost& error) {
    fault = error.what();
  } catch (const CommError&) {
    changed = std::current_exception();
  } catch (const std::exception& error) {
    fault = gloo_reason(error.what());
  }
  std::exception_ptr reason;
  {
    const std::lock_guard lock(mutex_);
    under_way_.erase(transfer.work);
    reason = reason_;
  }
  transfer.work.reset();
  if (reason) std::rethrow_exception(reason);
  if (changed) std::rethrow_exception(changed);
  if (!completed) lose(transfer, fault.empty() ? "aborted" : fault);
}

void Peers::wait(std::span<Transfer> transfers) {
  for (auto& transfer : transfers) wait(transfer);
}

Bytes Peers::take_sent() { return std::exchange(bytes_, Bytes{}); }

void Peers::abort(std::exception_ptr reason) {
  const std::lock_guard lock(mutex_);
  if (reason_) return;
  reason_ = std::move(reason);
  for (const auto& work : under_way_) work->abort();
}

std::exception_ptr Peers::aborted() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace shade::comm
