// What needs CUDA is a library of its own, libshade_cuda.so, that is loaded where there are GPUs: one program serves
// machines with and without. It hands over tables of functions, one for each module that has a part in it, and uses
// nothing of the program but what those functions are given.
#pragma once

#include <string>

namespace shade {

// That the driver shows to this process; 0 without a driver. Costs nothing on a machine without GPUs.
int visible_gpus();

class CudaLibrary {
 public:
  // Loaded by the first call: libtorch's CUDA part, from the folder that libtorch itself came from, and
  // libshade_cuda.so, by the run path of the program. A GPU isn't needed for this.
  static const CudaLibrary& get();

  bool loaded() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }  // and what to do about it; empty if it is loaded

  // The one that the exported function of this name returns. Throws UsageError if it isn't there.
  template <class Table>
  const Table& table(const char* name) const {
    return *reinterpret_cast<const Table* (*)()>(find(name))();
  }

 private:
  CudaLibrary();
  void* find(const char* name) const;

  void* handle_ = nullptr;
  std::string why_not_;
};

}  // namespace shade
