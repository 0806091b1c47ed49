#include "shade/base/key_bytes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/sanitizer.h"

namespace shade {
namespace {

KeyBytes::Bytes filled(uint8_t value) {
  KeyBytes::Bytes out;
  out.fill(value);
  return out;
}

// The kernel's flags of the pages at this address.
std::string page_flags(const void* address) {
  std::ifstream in("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') inside = begin <= wanted && wanted < end;
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "no such page";
}

TEST(KeyBytes, CopiesHaveTheirOwnBytes) {
  EXPECT_EQ(KeyBytes().bytes(), filled(0));
  const KeyBytes first(filled(7));
  KeyBytes second(first), third;
  EXPECT_EQ(second, first);
  second.data()[31] = 8;
  EXPECT_NE(second, first);
  third = second;
  EXPECT_EQ(third, second);
  EXPECT_NE(third.data(), second.data());
  EXPECT_EQ(first.bytes(), filled(7));
}

TEST(KeyBytes, AreLockedAndNotInCoreDumps) {
  const std::vector<KeyBytes> keys(300);  // of several pages
  for (const auto* key : {&keys.front(), &keys.back()}) {
    const auto flags = page_flags(key->data());
    // Sanitizers replace mlock by a function that does nothing.
    if (!SHADE_SANITIZED) EXPECT_NE(flags.find(" lo "), std::string::npos) << flags;
    EXPECT_NE(flags.find(" dd "), std::string::npos) << flags;
  }
}

TEST(KeyBytes, AreWipedWhenTheyEnd) {
  const uint8_t* place = nullptr;
  {
    const KeyBytes key(filled(0xa5));
    place = key.data();
  }
  EXPECT_TRUE(std::all_of(place, place + KeyBytes::size(), [](uint8_t byte) { return byte == 0; }));
  const KeyBytes next;
  EXPECT_EQ(next.data(), place) << "places are used again";
}

// In a child process: what is forbidden stays forbidden.
int ends_with(const std::function<int()>& body) {
  const auto child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(MemoryDumps, AreForbiddenToTheProcess) {
  EXPECT_EQ(ends_with([] {
              const rlimit some{.rlim_cur = 1, .rlim_max = RLIM_INFINITY};
              ::setrlimit(RLIMIT_CORE, &some);
              forbid_memory_dumps();
              rlimit limit{};
              if (::getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0) return 1;
              return ::prctl(PR_GET_DUMPABLE) == 0 ? 0 : 2;
            }),
            0);
}

TEST(MemoryDumps, AnotherProcessOfTheUserCantReadTheMemory) {
  const auto readable = [](bool forbidden) {
    return ends_with([forbidden] {
      // As an ordinary user, without root's right to look into all processes; and of a child, as any user may.
      if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 3;
      std::array<int, 2> ready{};
      if (::pipe(ready.data()) != 0) return 4;
      const auto child = ::fork();
      if (child == 0) {
        ::prctl(PR_SET_DUMPABLE, 1);  // the change of the user has cleared it
        if (forbidden) forbid_memory_dumps();
        (void)!::write(ready[1], "r", 1);
        ::pause();
      }
      char word = 0;
      (void)!::read(ready[0], &word, 1);
      const bool opened = ::open(text("/proc/", child, "/mem").c_str(), O_RDONLY) >= 0;
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      return opened ? 1 : 0;
    });
  };
  EXPECT_EQ(readable(false), 1) << "this test must see that memory can be read at all";
  EXPECT_EQ(readable(true), 0);
}

}  // namespace
}  // namespace shade
