// A step of the same size in eager PyTorch, in a process of its own, driven in turns with ours (bench/peers).
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/units.h"

namespace shade::experiment {

class Peer {
 public:
  // Starts step_server.py with these arguments and waits until it is ready. Throws UsageError if the peers aren't
  // installed.
  explicit Peer(const std::vector<std::string>& arguments);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  double run_ms();  // one step
  Bytes peak();     // of the tensors of one step

 private:
  Json ask(const std::string& line);
  Json answer();

  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace shade::experiment
