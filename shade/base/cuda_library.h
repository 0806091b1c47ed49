// What needs CUDA is a library of its own, libshade_cuda.so, that is loaded where there are GPUs: one program serves
// machines with and without.
#pragma once

#include <optional>
#include <string>

#include "shade/base/loaded_library.h"

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

  // As LoadedLibrary::table.
  template <class Table>
  const Table& table(const char* name) const {
    require_loaded();
    return library_->table<Table>(name);
  }

 private:
  CudaLibrary();
  void require_loaded() const;

  std::optional<LoadedLibrary> library_;
  std::string why_not_;
};

}  // namespace shade
