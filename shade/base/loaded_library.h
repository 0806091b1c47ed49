// A library of ours that not every machine has, loaded when it is first needed. It hands over tables of functions, one
// for each module that has a part in it, and uses nothing of the program but what those functions are given.
#pragma once

#include <string>

namespace shade {

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

}  // namespace shade
