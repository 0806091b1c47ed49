// A trace of every operator, span and collective of this process, as Perfetto and TensorBoard's PyTorch plugin read it.
#pragma once

#include <string>

namespace shade::profile {

// Records from construction to save(), through the profiler inside libtorch (Kineto). One at a time per process.
class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  // Ends the recording and writes it; TensorBoard wants names that end in `.pt.trace.json`.
  void save(const std::string& path);

 private:
  bool recording_ = true;
};

}  // namespace shade::profile
