// The other ranks of a group, as an algorithm sees them: messages in order, bytes counted, faults named.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <exception>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "shade/base/units.h"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace shade::comm {

// A message under way. Its tensor must stay as it is until Peers::wait.
struct Transfer {
  c10::intrusive_ptr<c10d::Work> work;  // null: nothing to wait for
  int peer = 0;
  const char* verb = "";
};

// Used by one thread (the group's lane); only abort() may come from another.
class Peers {
 public:
  Peers(c10::intrusive_ptr<c10d::Backend> backend, int rank, std::vector<int> global_ranks);
  ~Peers();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(global_ranks_.size()); }
  int after(int steps) const { return (rank_ + steps) % size(); }  // the rank `steps` further round the circle
  int before(int steps) const { return (rank_ - steps % size() + size()) % size(); }

  // The n-th message from a to b is received by b's n-th recv from a. Empty tensors are no messages.
  Transfer send(const at::Tensor& tensor, int to);
  Transfer recv(const at::Tensor& tensor, int from);
  void wait(Transfer& transfer);  // throws PeerLost naming the peer
  void wait(std::span<Transfer> transfers);

  Bytes take_sent();  // bytes sent since the last call

  void abort(std::exception_ptr reason);
  std::exception_ptr aborted() const;

 private:
  template <class Issue>
  Transfer begin(int peer, const char* verb, Issue issue);
  [[noreturn]] void lose(const Transfer& transfer, const std::string& fault) const;

  c10::intrusive_ptr<c10d::Backend> backend_;
  int rank_;
  std::vector<int> global_ranks_;
  std::vector<uint32_t> sent_;  // messages so far, by peer
  std::vector<uint32_t> received_;
  Bytes bytes_;

  mutable std::mutex mutex_;
  std::exception_ptr reason_;
  std::set<c10::intrusive_ptr<c10d::Work>> under_way_;  // kept alive: the transport may still write to their tensors
};

}  // namespace shade::comm
