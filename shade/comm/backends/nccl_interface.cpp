#include <cstdlib>
#include <utility>

#include "shade/base/error.h"
#include "shade/comm/backends/backends.h"

namespace shade::comm {

// '=' makes the name exact: NCCL takes others for prefixes. Transports besides sockets (InfiniBand, plugins of cloud
// providers) would leave the interface.
void keep_nccl_on(const std::string& interface) {
  const std::pair<const char*, std::string> settings[] = {{"NCCL_SOCKET_IFNAME", "=" + interface},
                                                          {"NCCL_IB_DISABLE", "1"},
                                                          {"NCCL_NET", "Socket"},
                                                          {"NCCL_OOB_NET_ENABLE", "0"}};
  for (const auto& [name, value] : settings) {
    const char* present = std::getenv(name);
    const bool agrees = present == nullptr || value == present || (value == text("=", present));
    SHADE_REQUIRE(agrees, name, "=", present, " contradicts the interface ", interface,
                  " (--comm.interface), which needs ", name, "=", value,
                  ": NCCL's messages would leave that interface. Unset the variable, or leave the option out");
    ::setenv(name, value.c_str(), 1);
  }
}

}  // namespace shade::comm
