// Who am I: a rank's place in its world as the environment states it. Pure data; nothing here opens a socket.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace shade::comm {

// A rank's number in its world, and the store at which the ranks meet.
struct Place {
  int rank = 0;                          // from 0 to size - 1
  int size = 1;                          // number of ranks in the world
  int local_rank = 0;                    // number of this rank on its host, from 0
  int local_size = 1;                    // number of ranks on this host; of Slurm on several hosts, an average
  std::string store_host = "127.0.0.1";  // name or address of the store's host
  uint16_t store_port = 0;               // 0: none needed, a world of one
  bool store_hosted = false;  // somebody else (torchrun's agent, shade launch) hosts the store; rank 0 doesn't
  bool store_reused = false;  // an earlier start may have used it, or another with the same secret (comm/job/session.h)
  std::string origin = "alone";  // who stated it: alone, torchrun, slurm, mpirun

  // True if all ranks of the world run on this host.
  bool single_host() const { return local_size == size; }
};

// Returns the value of an environment variable, or null if it is not set.
using Getenv = std::function<const char*(const char*)>;

// torchrun's variables first (shade launch sets the same), then Slurm's, then Open MPI's; none: alone.
// `stated` is what the user asked for (--ranks): a world of another size is an error, never a guess.
Place place_from(const Getenv& get, std::optional<int> stated = std::nullopt);
// The same from this process's environment.
Place place_from_environment(std::optional<int> stated = std::nullopt);

// "node[03-05,9]" -> "node03": the host of rank 0.
std::string first_slurm_host(const std::string& nodelist);

}  // namespace shade::comm
