// What needs CUDA is a separate library, libshade_cuda.so, that is loaded where there are GPUs: one program serves
// machines with and without.
#pragma once

#include <optional>
#include <string>

namespace shade {

// A library of ours that not every machine has, loaded when it is first needed. It exports tables of functions, one for
// each module that has a part in it, and uses nothing of the program but what those functions are given.
class LoadedLibrary {
 public:
  // By the run path of the program. `advice` says how to get it.
  LoadedLibrary(std::string file, const std::string& advice);
  LoadedLibrary(const LoadedLibrary&) = delete;
  LoadedLibrary& operator=(const LoadedLibrary&) = delete;

  bool loaded() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }  // and what to do about it; empty if it is loaded

  // The one that the exported function of this name returns. Throws UsageError if it isn't there.
  template <class Table>
  const Table& table(const char* name) const {
    return *reinterpret_cast<const Table* (*)()>(find(name))();
  }

 private:
  void* find(const char* name) const;

  std::string file_;
  void* handle_ = nullptr;
  std::string why_not_;
};

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
