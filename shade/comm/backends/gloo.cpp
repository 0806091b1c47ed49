// Gloo inside libtorch. The wheel ships no gloo headers; Debian's are older and lay out some classes differently. So
// this file, the only one to include them, touches no gloo object: it passes a Device pointer from one function of
// c10d to another. tests/tools/gloo_abi_test checks that no gloo class of ours ends up in the program.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"

namespace shade::comm {

c10::intrusive_ptr<c10d::Backend> make_gloo(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                            const BackendOptions& options) {
  auto native =
      c10d::ProcessGroupGloo::Options::create(std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout));
  native->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
  native->threads = 1;  // for stock collectives only: our exchanges run on their own lane
  native->group_name = options.name;
  try {
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, native);
  } catch (const std::exception& fault) {
    throw CommError(text("group ", options.name, ": rank ", rank, " of ", size, " could not connect to its peers on ",
                         options.address, ": ", fault.what()));
  }
}

}  // namespace shade::comm
