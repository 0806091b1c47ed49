#include "shade/comm/job/environment.h"

#include <cstdlib>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/comm/job/forget_place.h"

namespace shade::comm {
namespace {

constexpr uint16_t kDefaultPort = 29500;

class Variables {
 public:
  Variables(const Getenv& get, const char* origin) : get_(get), origin_(origin) {}

  bool has(const char* name) const { return get_(name) != nullptr; }
  std::string word(const char* name, const std::string& otherwise) const {
    const char* value = get_(name);
    return value != nullptr ? value : otherwise;
  }
  int number(const char* name) const {
    SHADE_REQUIRE(has(name), origin_, " variables are incomplete: ", name, " is not set");
    return number(name, 0);
  }
  int number(const char* name, int otherwise) const {
    const char* value = get_(name);
    if (value == nullptr) return otherwise;
    const auto parsed = parse_integer(value);
    SHADE_REQUIRE(parsed && *parsed >= 0 && *parsed <= 1 << 24, name, "='", value, "' is not a number of ranks");
    return static_cast<int>(*parsed);
  }
  uint16_t port(const char* name, uint16_t otherwise) const {
    const int value = number(name, otherwise);
    SHADE_REQUIRE(value > 0 && value < 65536, name, "=", value, " is not a port");
    return static_cast<uint16_t>(value);
  }

 private:
  const Getenv& get_;
  const char* origin_;
};

Place from_torchrun(const Getenv& get) {
  const Variables v(get, "torchrun");
  Place place;
  place.origin = "torchrun";
  place.rank = v.number("RANK");
  place.size = v.number("WORLD_SIZE");
  place.store_host = v.word("MASTER_ADDR", "127.0.0.1");
  // Kubernetes' jobs say nothing of hosts: a pod is one, with one rank.
  const bool here = place.store_host == "localhost" || place.store_host.starts_with("127.");
  place.local_rank = v.number("LOCAL_RANK", here ? place.rank : 0);
  place.local_size = v.number("LOCAL_WORLD_SIZE", here ? place.size : 1);
  place.store_port = v.port("MASTER_PORT", kDefaultPort);
  place.store_hosted = v.word("TORCHELASTIC_USE_AGENT_STORE", "") == "True";
  // Ours (comm/job/launch.cpp) is new at every start, with its own secret.
  place.store_reused = v.number("SHADE_STORE_PORT", 0) != place.store_port;
  return place;
}

Place from_slurm(const Getenv& get) {
  const Variables v(get, "Slurm");
  Place place;
  place.origin = "slurm";
  place.store_reused = true;
  place.rank = v.number("SLURM_PROCID");
  place.size = v.number("SLURM_NTASKS");
  place.local_rank = v.number("SLURM_LOCALID", 0);
  // "4(x2),3": tasks on each node; only a single node's number is needed exactly.
  const bool one_node = v.number("SLURM_NNODES", 1) == 1;
  place.local_size = one_node ? place.size : std::min(place.size - 1, place.size / v.number("SLURM_NNODES"));
  const auto head = first_slurm_host(v.word("SLURM_STEP_NODELIST", v.word("SLURM_JOB_NODELIST", "")));
  place.store_host = v.word("MASTER_ADDR", one_node || head.empty() ? "127.0.0.1" : head);
  // Two jobs on one node must not meet: the port follows the job.
  const auto job = static_cast<uint16_t>(20000 + v.number("SLURM_JOB_ID", 0) % 12000);
  place.store_port = v.port("MASTER_PORT", job);
  return place;
}

Place from_mpirun(const Getenv& get) {
  const Variables v(get, "mpirun");
  Place place;
  place.origin = "mpirun";
  place.store_reused = true;
  place.rank = v.number("OMPI_COMM_WORLD_RANK");
  place.size = v.number("OMPI_COMM_WORLD_SIZE");
  place.local_rank = v.number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  place.local_size = v.number("OMPI_COMM_WORLD_LOCAL_SIZE", place.size);
  SHADE_REQUIRE(place.single_host() || v.has("MASTER_ADDR"),
                "mpirun started ranks on several hosts; say where rank 0 is: mpirun -x MASTER_ADDR=<its address> ...");
  place.store_host = v.word("MASTER_ADDR", "127.0.0.1");
  place.store_port = v.port("MASTER_PORT", kDefaultPort);
  return place;
}

}  // namespace

Place place_from(const Getenv& get, std::optional<int> stated) {
  Place place;
  if (get("RANK") != nullptr || get("WORLD_SIZE") != nullptr)
    place = from_torchrun(get);
  else if (get("OMPI_COMM_WORLD_SIZE") != nullptr)
    place = from_mpirun(get);
  else if (get("SLURM_PROCID") != nullptr && get("SLURM_NTASKS") != nullptr)
    place = from_slurm(get);

  SHADE_REQUIRE(place.size > 0 && place.rank < place.size, place.origin, " states rank ", place.rank, " in a world of ",
                place.size, "; ranks run from 0 to size - 1");
  SHADE_REQUIRE(!stated || *stated == place.size, "--ranks ", *stated, " was asked for, but ", place.origin,
                " made a world of ", place.size, "; start ", *stated, " ranks or drop --ranks");
  if (place.size == 1) place.store_port = 0;
  return place;
}

Place place_from_environment(std::optional<int> stated) {
  return place_from([](const char* name) { return std::getenv(name); }, stated);
}

void forget_place() {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                           "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID", "TORCHELASTIC_USE_AGENT_STORE"})
    ::unsetenv(name);
}

std::string first_slurm_host(const std::string& nodelist) {
  const auto bracket = nodelist.find('[');
  const auto comma = nodelist.find(',');
  if (bracket == std::string::npos || comma < bracket) return nodelist.substr(0, comma);
  const auto end = nodelist.find_first_of("-,]", bracket);
  return nodelist.substr(0, bracket) + nodelist.substr(bracket + 1, end - bracket - 1);
}

}  // namespace shade::comm
