// What ranks on CPUs send, in a simulated world.
#pragma once

#include <atomic>

namespace shade::comm {

// While one lives, groups of simulated worlds count what our exchange algorithms would send and allocate (exchange/),
// as ranks on CPUs do. Otherwise they count a backend's own collectives, as ranks over NCCL use them.
class AsExchange {
 public:
  AsExchange() { ++active_; }
  ~AsExchange() { --active_; }
  AsExchange(const AsExchange&) = delete;
  AsExchange& operator=(const AsExchange&) = delete;

  static bool active() { return active_ > 0; }

 private:
  inline static std::atomic<int> active_{0};
};

}  // namespace shade::comm
