// Who am I: a rank's place in its world as the environment states it. Pure data; nothing here opens a socket.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace shade::comm {

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string store_host = "127.0.0.1";
  uint16_t store_port = 0;    // 0: none needed, a world of one
  bool store_hosted = false;  // somebody else (torchrun's agent, shade launch) hosts the store; rank 0 doesn't
  bool store_reused = false;  // an earlier start may have used it, or another with the same secret (comm/job/session.h)
  std::string origin = "alone";  // who stated it: alone, torchrun, slurm, mpirun

  bool single_host() const { return local_size == size; }
};

using Getenv = std::function<const char*(const char*)>;

// torchrun's variables first (shade launch sets the same), then Slurm's, then Open MPI's; none: alone.
// `stated` is what the user asked for (--ranks): a world of another size is an error, never a guess.
Place place_from(const Getenv& get, std::optional<int> stated = std::nullopt);
Place place_from_environment(std::optional<int> stated = std::nullopt);

// "node[03-05,9]" -> "node03": the host of rank 0.
std::string first_slurm_host(const std::string& nodelist);

}  // namespace shade::comm
