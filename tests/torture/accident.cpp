// A library that stands before the C library of `shade train` and lets one accident happen, described by variables:
//
//   SHADE_ACCIDENT_CALL    open, write, fsync or rename
//   SHADE_ACCIDENT_FILE    part of the path that is meant
//   SHADE_ACCIDENT_NTH     which of these calls fails, from 1
//   SHADE_ACCIDENT_ERRNO   how
//   SHADE_ACCIDENT_LASTS   1: all later ones fail as well, as on a full disk
//   SHADE_ACCIDENT_CLOCK   seconds by which the time of day jumps ...
//   SHADE_ACCIDENT_AFTER   ... so many seconds after the process began
//
// No C++ runtime beyond atomics: this library is in every process of a case.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "tests/support/interpose.h"

namespace {

using namespace shade::test;

const char* word(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::atomic<int> calls{0};

// Whether this call is one that fails; then errno is set.
bool strikes(const char* call, const char* path) {
  const char* file = word("SHADE_ACCIDENT_FILE");
  if (*file == '\0' || std::strcmp(call, word("SHADE_ACCIDENT_CALL")) != 0 || std::strstr(path, file) == nullptr)
    return false;
  const int nth = std::atoi(word("SHADE_ACCIDENT_NTH")), now = ++calls;
  if (now < nth || (now > nth && *word("SHADE_ACCIDENT_LASTS") != '1')) return false;
  errno = std::atoi(word("SHADE_ACCIDENT_ERRNO"));
  return true;
}

bool strikes(const char* call, int descriptor) {
  if (*word("SHADE_ACCIDENT_FILE") == '\0') return false;
  char path[4096];
  return find_path(descriptor, path) && strikes(call, path);
}

time_t jump() {
  const char* by = word("SHADE_ACCIDENT_CLOCK");
  if (*by == '\0') return 0;
  static const auto monotonic = [] {
    timespec now{};
    real<int(clockid_t, timespec*), "clock_gettime">()(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  static const double begin = monotonic();
  return monotonic() - begin < std::atof(word("SHADE_ACCIDENT_AFTER")) ? 0 : std::atol(by);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = mode_of(flags, list);
  va_end(list);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && strikes("open", path)) return -1;
  return real<int(const char*, int, ...), "open">()(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = mode_of(flags, list);
  va_end(list);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && strikes("open", path)) return -1;
  return real<int(const char*, int, ...), "open64">()(path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (strikes("write", descriptor)) return -1;
  return real<ssize_t(int, const void*, size_t), "write">()(descriptor, bytes, size);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t at) {
  if (strikes("write", descriptor)) return -1;
  return real<ssize_t(int, const void*, size_t, off_t), "pwrite">()(descriptor, bytes, size, at);
}

ssize_t pwrite64(int descriptor, const void* bytes, size_t size, off64_t at) {
  if (strikes("write", descriptor)) return -1;
  return real<ssize_t(int, const void*, size_t, off64_t), "pwrite64">()(descriptor, bytes, size, at);
}

// The C library's own streams don't call write() through the table that a library can stand before.
int fflush(FILE* stream) {
  if (stream != nullptr && strikes("write", ::fileno(stream))) return EOF;
  return real<int(FILE*), "fflush">()(stream);
}

int fsync(int descriptor) {
  if (strikes("fsync", descriptor)) return -1;
  return real<int(int), "fsync">()(descriptor);
}

int rename(const char* from, const char* to) {
  if (strikes("rename", to)) return -1;
  return real<int(const char*, const char*), "rename">()(from, to);
}

int clock_gettime(clockid_t clock, timespec* now) {
  const int result = real<int(clockid_t, timespec*), "clock_gettime">()(clock, now);
  if (clock == CLOCK_REALTIME && result == 0) now->tv_sec += jump();
  return result;
}

time_t time(time_t* out) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(timeval* now, void*) {
  timespec precise{};
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  *now = {.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
  return result;
}

}  // extern "C"
