// A world in one process: every operation is recorded and priced, none touches a network.
//
//   solo     one rank stands for all N (to 16,384): peers are taken to hold the same data. With meta tensors nothing
//            is computed at all. What the planner uses.
//   meeting  N ranks as threads of this process, exchanging real data through memory. What tests use.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <mutex>
#include <vector>

#include "shade/comm/collective.h"

namespace c10d {
class Backend;
}

namespace shade::comm {

// alpha-beta: a message of n bytes takes alpha + n / bandwidth. A group that spans hosts pays the slower link.
struct Link {
  Seconds alpha{0};
  double bytes_per_second = 1;
};
struct CostModel {
  Link inside{Seconds(4e-6), 400e9};   // between the GPUs of one host
  Link between{Seconds(12e-6), 50e9};  // between hosts, per rank
  int ranks_per_host = 8;

  // Ring all_gather and reduce_scatter: (W-1) steps of N/W bytes; all_reduce both; all_to_all (W-1) messages of N/W;
  // broadcast a pipelined tree; barrier ceil(log2 W) empty messages up and down.
  Seconds price(Collective kind, Bytes payload, std::span<const int> global_ranks) const;
};

struct SimulatedOperation {
  Collective kind = Collective::barrier;
  Bytes payload;
  Bytes wire;  // sent by this rank
  int ranks = 1;
  Seconds start{0};
  Seconds end{0};
};

// One rank's simulated time and what it did. Thread-safe.
class Journal {
 public:
  Seconds now() const;
  void compute(Seconds time);  // the rank is busy with something else; operations go on meanwhile
  std::vector<SimulatedOperation> operations() const;

 private:
  friend class SimulatedBackend;
  mutable std::mutex mutex_;
  Seconds now_{0};
  std::vector<SimulatedOperation> operations_;
};

class Meeting;  // where the ranks of one group, as threads, exchange data
std::shared_ptr<Meeting> make_meeting(int size);

struct SimulatedOptions {
  CostModel cost;
  std::shared_ptr<Journal> journal;  // required
  std::vector<int> global_ranks;     // of the group
  std::shared_ptr<Meeting> meeting;  // null: solo
};

c10::intrusive_ptr<c10d::Backend> make_simulated(int rank, int size, SimulatedOptions options);

}  // namespace shade::comm
