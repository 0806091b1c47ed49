// The transports we don't own, one file each. NCCL is in a library that is
// loaded where there are GPUs (base/cuda_library.h): without it nccl.cpp says what is missing.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/names.h"
#include "shade/base/units.h"
#include "shade/comm/job/secret.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace shade::comm {

enum class BackendKind { automatic, gloo, nccl, simulated };

inline std::span<const Name<BackendKind>> names_of(BackendKind) {
  static constexpr Name<BackendKind> kNames[] = {{"auto", BackendKind::automatic},
                                                 {"gloo", BackendKind::gloo},
                                                 {"nccl", BackendKind::nccl},
                                                 {"simulated", BackendKind::simulated}};
  return kNames;
}

struct BackendOptions {
  std::string name;     // of the group; unique in its world
  std::string address;  // the local address to listen on; 127.0.0.1 keeps a single-host world on loopback
  Seconds timeout{60};  // to connect
  Seconds limit{300};   // nccl: for one operation. Others have none: the watchdog ends a job that doesn't move
  c10::Device device = c10::kCPU;  // nccl: where its tensors live

  // Of the wire alone.
  std::vector<int> global_ranks{};          // the members' ranks in the world
  std::optional<Secret> secret{};           // of this group in this start of the world
  bool seal = false;                        // messages are encrypted and authenticated
  std::function<void()> interrupt = [] {};  // called now and then while ranks connect; throws to end the wait
};

// Messages (send and recv) between CPU tensors over authenticated TCP connections: what our algorithms run on. All
// ranks of the group must call this together; blocks until they are connected.
c10::intrusive_ptr<c10d::Backend> make_wire(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            const BackendOptions& options);

// Gloo's own collectives, for comparison with ours. Its ports are not authenticated: it carries nothing of a run.
c10::intrusive_ptr<c10d::Backend> make_gloo(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                            const BackendOptions& options);

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                            const BackendOptions& options);
// From now on NCCL speaks over this network interface alone. Throws UsageError if the environment says otherwise.
void keep_nccl_on(const std::string& interface);
void require_nccl();         // throws UsageError if there is none, or no GPU for it
bool nccl_built();           // can it be loaded here? A GPU isn't needed for that
int nccl_devices();          // GPUs it could use here
std::string nccl_version();  // "2.30.7", or "none"

// The GPU of this rank: the one with its local number, or the only visible one (Slurm shows each task its own).
// Throws UsageError if there is none for it.
c10::Device nccl_device(int local_rank);

}  // namespace shade::comm
