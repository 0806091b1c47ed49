// See storage_fault.h. No C++ runtime beyond atomics and a mutex: this library is in every process of a test.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "tests/support/interpose.h"

namespace {

using namespace shade::test;

struct Plan {
  char folder[4096] = "";
  char call[16] = "";
  int left = 0;  // calls until it happens; 0: not armed
  int fault = 0;
  int happened = 0;
};
std::mutex mutex;
Plan plan;

// Whether this call is the one; then errno is set.
bool strikes(const char* call, const char* path) {
  const std::lock_guard lock(mutex);
  if (plan.left == 0 || std::strcmp(call, plan.call) != 0 ||
      std::strncmp(path, plan.folder, std::strlen(plan.folder)) != 0)
    return false;
  if (--plan.left > 0) return false;
  plan.happened = 1;
  if (plan.fault < 0) ::kill(::getpid(), SIGKILL);
  errno = plan.fault;
  return true;
}

bool strikes(const char* call, int descriptor) {
  char path[4096];
  return find_path(descriptor, path) && strikes(call, path);
}

}  // namespace

extern "C" {

void storage_fault_arm(const char* folder, const char* call, int n, int fault) {
  const std::lock_guard lock(mutex);
  std::snprintf(plan.folder, sizeof plan.folder, "%s", folder);
  std::snprintf(plan.call, sizeof plan.call, "%s", call);
  plan.left = n;
  plan.fault = fault;
  plan.happened = 0;
}

int storage_fault_disarm() {
  const std::lock_guard lock(mutex);
  plan.left = 0;
  return plan.happened;
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = mode_of(flags, list);
  va_end(list);
  if (strikes("open", path)) return -1;
  return real<int(const char*, int, ...), "open">()(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = mode_of(flags, list);
  va_end(list);
  if (strikes("open", path)) return -1;
  return real<int(const char*, int, ...), "open64">()(path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  const auto next = real<ssize_t(int, const void*, size_t), "write">();
  if (!strikes("write", descriptor)) return next(descriptor, bytes, size);
  return errno == 0 ? next(descriptor, bytes, (size + 1) / 2) : -1;
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  const auto next = real<ssize_t(int, const void*, size_t, off_t), "pwrite">();
  if (!strikes("write", descriptor)) return next(descriptor, bytes, size, at);
  return errno == 0 ? next(descriptor, bytes, (size + 1) / 2, at) : -1;
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t at) {
  const auto next = real<ssize_t(int, const void*, size_t, off64_t), "pwrite64">();
  if (!strikes("write", descriptor)) return next(descriptor, bytes, size, at);
  return errno == 0 ? next(descriptor, bytes, (size + 1) / 2, at) : -1;
}

int fsync(int descriptor) {
  if (strikes("fsync", descriptor)) return -1;
  return real<int(int), "fsync">()(descriptor);
}

int rename(const char* from, const char* to) {
  if (strikes("rename", from)) return -1;
  return real<int(const char*, const char*), "rename">()(from, to);
}

}  // extern "C"
