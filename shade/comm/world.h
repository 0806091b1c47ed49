// The world: all ranks of a job, from rendezvous to farewell.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/config.h"
#include "shade/comm/backends/backends.h"
#include "shade/comm/backends/simulated.h"
#include "shade/comm/errors.h"
#include "shade/comm/group.h"
#include "shade/comm/job/environment.h"

namespace c10d {
class Store;
}

namespace shade::comm {

// Whether messages between ranks are encrypted and authenticated. automatic: if the job spans hosts.
enum class SealMessages { automatic, on, off };

inline std::span<const Name<SealMessages>> names_of(SealMessages) {
  static constexpr Name<SealMessages> kNames[] = {
      {"auto", SealMessages::automatic}, {"on", SealMessages::on}, {"off", SealMessages::off}};
  return kNames;
}

// How the ranks of a world communicate.
struct CommConfig {
  BackendKind backend = BackendKind::automatic;  // automatic: nccl if there are GPUs, otherwise gloo
  Seconds peer_timeout{10};                      // time after which a stopped or dead rank ends the job
  Seconds rendezvous_timeout{60};                // time that ranks wait for each other at the start
  Seconds stall_timeout{300};  // time after which the job ends if all ranks are alive and wait for each other
  std::string interface;       // network interface between hosts, e.g. eth0; empty: the one that leads to rank 0
  SealMessages seal = SealMessages::automatic;  // on: an error with nccl, which can't encrypt
  Bytes segment = MiB(4);                       // part of a reduction that is received while the previous part is added

  // Adds every field with its name, help, unit and range (base/config.h).
  void declare(Fields& fields);
};

// exchange: our algorithms on messages over authenticated connections; native: the backend's own collectives; best:
// exchange for CPU tensors, native on NCCL.
enum class Algorithms { best, exchange, native };

// Owns the store's connection, the watchdog and every group. Groups may outlive it only to be destroyed.
// Not copyable; a process may be in several worlds (tests are).
class World {
 public:
  // Optional arguments of connect().
  struct Options {
    // The job is lost and this process did not end by itself within a second (it computes): end it. Programs pass a
    // function that prints its message and exits; without it the library only makes waiting operations throw.
    std::function<void(const Loss&)> overdue;
    bool watchdog = true;            // starts a thread that notices stopped, dead and stalled ranks
    std::optional<Secret> secret{};  // none: the one that the environment states (comm/job/secret.h)
  };

  // Meets the other ranks. Throws CommError naming who did not come, or that sizes disagree. Where SIGPIPE would still
  // end the process it is ignored from now on: a peer's end must reach us as an error.
  static World connect(const Place& place, const CommConfig& config, Options options);
  // The same with default options.
  static World connect(const Place& place, const CommConfig& config) { return connect(place, config, Options{}); }

  // The same over a store given by the caller (threads of one process share a HashStore).
  static World connect(const Place& place, const CommConfig& config, c10::intrusive_ptr<c10d::Store> store,
                       Options options);

  // What the groups of a simulated world count: a backend's own collectives, as ranks over NCCL use them, or what our
  // exchange algorithms would send and allocate (exchange/), as ranks on CPUs do.
  enum class Counted { backend, exchange };
  // One rank that stands for `size`: no store, no sockets. `cost` gives the time of each operation.
  static World simulated(int rank, int size, CostModel cost = {}, Counted counted = Counted::backend);

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();  // without leave(): the others are told that this rank failed

  const Place& place() const;                // as passed to connect(); simulated: rank, size and origin alone are set
  int rank() const { return place().rank; }  // from 0 to size() - 1
  int size() const { return place().size; }  // number of ranks
  // A line on standard output, of rank 0 alone: what every rank would say is read once.
  template <class... Parts>
  void print(const Parts&... parts) const {
    if (rank() == 0) std::printf("%s\n", text(parts...).c_str()), std::fflush(stdout);
  }
  BackendKind backend() const;  // the one in use, never BackendKind::automatic
  // Where this rank computes: its GPU if the backend is nccl, else the CPU.
  c10::Device device() const;
  const CommConfig& config() const;  // as passed to connect(); simulated: the defaults

  // A group of these world ranks (sorted, containing this rank; empty: all). Its members must all call this, in the
  // same order relative to other groups they share. `name` is unique in the world.
  Group group(const std::string& name, std::vector<int> ranks = {}, Algorithms algorithms = Algorithms::best);

  // A group of all ranks for CPU tensors, also if the world is on NCCL, which refuses them. What ranks agree on, and
  // checkpoints.
  Group control(const std::string& name);

  // Operations that a device carries out are recorded as far as it has come.
  TrafficLog& traffic();
  Journal& journal();  // simulated worlds only

  void leave();  // normal end: groups are closed; blocks rank 0 while it hosts the store and others still need it

  // Abnormal end: the others and the launcher are told what happened; a PeerLost is told as the echo it is.
  void fail(std::exception_ptr reason);

 private:
  struct State;
  explicit World(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace shade::comm
