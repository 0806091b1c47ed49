// For libraries that stand before the C library (LD_PRELOAD) and let its calls fail. No C++ runtime: they are in every
// process of a test.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

namespace shade::test {

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
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
