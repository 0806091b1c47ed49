#include "shade/cli/version.h"

#include <shade_version.h>
#include <torch/version.h>

#include "shade/base/error.h"
#include "shade/comm/backends/backends.h"

namespace shade::cli {

std::string version() { return SHADE_VERSION; }
std::string commit() { return SHADE_COMMIT; }
std::string date() { return SHADE_DATE; }

std::string version_text() {
  return text("shade ", SHADE_VERSION, " (", SHADE_COMMIT, ", ", SHADE_BUILD, ")\n",  //
              "libtorch ", TORCH_VERSION, "\n",                                       //
              "compiler ", SHADE_COMPILER, "\n",                                      //
              "backends gloo, simulated, nccl ", comm::nccl_version(), "\n");
}

}  // namespace shade::cli
