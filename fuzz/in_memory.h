// An input of the fuzzer as a file, without a disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <string_view>

#include "shade/base/error.h"

namespace shade::fuzz {

// One file, overwritten by every input.
class InMemory {
 public:
  InMemory() : descriptor_(::memfd_create("input", MFD_CLOEXEC)) { SHADE_CHECK(descriptor_ >= 0, "no file in memory"); }
  ~InMemory() { ::close(descriptor_); }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;

  void fill(std::string_view content) const {
    const bool done = ::ftruncate(descriptor_, 0) == 0 &&
                      ::pwrite(descriptor_, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
    SHADE_CHECK(done, "no space for a file in memory");
  }
  std::filesystem::path path() const { return text("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

// Not the broken law of our own that SHADE_CHECK reports at the end of its message.
inline void check_not_internal(std::string_view message) {
  const auto at = message.rfind(" [internal: ");
  SHADE_CHECK(at == message.npos || !message.ends_with(']') || message.find(".cpp:", at) == message.npos, message);
}

// A message is a line that can be shown: short, and with nothing a terminal obeys.
inline void check_message(std::string_view message) {
  SHADE_CHECK(message.size() < 4000 && message.find_first_of("\n\r\t\x1b\x7f") == message.npos, message);
}

}  // namespace shade::fuzz
