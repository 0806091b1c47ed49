#include "shade/cli/before_libraries.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>

// Functions of this file run before the C library and the sanitizers are ready.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHADE_BEFORE __attribute__((no_sanitize("address", "thread")))
#endif
#endif
#ifndef SHADE_BEFORE
#define SHADE_BEFORE
#endif

namespace shade::cli {
namespace {

// About 0.1 ms: a few per cent slower than 300,000 (the default) for tiny models on an idle host, as fast as none on a
// busy one.
constexpr std::string_view kSetting = "GOMP_SPINCOUNT=3000";

SHADE_BEFORE bool begins(const char* variable, const char* with) {
  while (*with != '\0')
    if (*variable++ != *with++) return false;
  return true;
}

SHADE_BEFORE void require_working_folder() {
  std::array<char, PATH_MAX> folder;
  if (::syscall(SYS_getcwd, folder.data(), folder.size()) >= 0 || errno != ENOENT) return;
  constexpr std::string_view kWords =
      "shade: the working folder was deleted; change to another one (cd) and try again\n";
  ::syscall(SYS_write, STDERR_FILENO, kWords.data(), kWords.size());
  ::syscall(SYS_exit_group, 1);
}

// If it can't be done, libgomp's default stays.
SHADE_BEFORE void make_waits_short(char** argv, char** variables) {
  constexpr int kMost = 4096;
  int count = 0;
  for (; variables[count] != nullptr; ++count)
    if (begins(variables[count], "OMP_WAIT_POLICY=") || begins(variables[count], "GOMP_SPINCOUNT=")) return;
  const bool by_the_loader = ::getauxval(AT_BASE) == 0;  // /proc/self/exe is ld.so
  if (count > kMost || by_the_loader || ::getauxval(AT_SECURE) != 0) return;
  const char* more[kMost + 2];
  for (int i = 0; i < count; ++i) more[i] = variables[i];
  more[count] = kSetting.data();
  more[count + 1] = nullptr;
  ::syscall(SYS_execve, "/proc/self/exe", argv, more);
}

SHADE_BEFORE void before_libraries(int, char** argv, char** variables) {
  require_working_folder();
  make_waits_short(argv, variables);
}

__attribute__((section(".preinit_array"), used)) void (*const first)(int, char**, char**) = before_libraries;

}  // namespace

void forget_short_waits() {
  const auto* value = std::getenv("GOMP_SPINCOUNT");
  if (value != nullptr && kSetting.substr(kSetting.find('=') + 1) == value) ::unsetenv("GOMP_SPINCOUNT");
}

}  // namespace shade::cli
