// For libraries that stand before the C library (LD_PRELOAD) and let its calls fail. No C++ runtime: they are in every
// process of a test.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace shade::test {

struct Symbol {
  template <size_t N>
  constexpr Symbol(const char (&word)[N]) {  // NOLINT: as a template argument it is written as a word
    for (size_t i = 0; i < N; ++i) name[i] = word[i];
  }
  char name[32]{};
};

// Looked up once: signal handlers write, too, and dlsym() has a lock, in which a handler that interrupts it would wait
// for ever.
template <class Function, Symbol symbol>
Function* real() {
  static std::atomic<void*> known{nullptr};
  void* found = known;
  if (found == nullptr) known = found = ::dlsym(RTLD_NEXT, symbol.name);
  return reinterpret_cast<Function*>(found);
}

inline int mode_of(int flags, va_list list) { return (flags & O_CREAT) != 0 ? va_arg(list, int) : 0; }

// Of an open file; false: it has none.
inline bool find_path(int descriptor, char (&path)[4096]) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const auto size = ::readlink(link, path, sizeof path - 1);
  if (size >= 0) path[size] = '\0';
  return size >= 0;
}

}  // namespace shade::test
