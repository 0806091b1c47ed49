#include "tests/support/device/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "shade/base/error.h"
#include "tests/support/device/memory.h"

namespace shade::test::device {
namespace {

constexpr size_t kSize = size_t{1} << 38;  // of addresses; pages are there once they are used

void host_touch(int, siginfo_t* info, void*);

struct Arena {
  uintptr_t addresses = mapped(PROT_NONE);
  uintptr_t bytes = mapped(PROT_READ | PROT_WRITE);
  std::atomic<size_t> used{0};

  Arena() {
    struct sigaction action{};
    action.sa_sigaction = host_touch;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &action, nullptr);
  }

  static uintptr_t mapped(int protection) {
    void* found = ::mmap(nullptr, kSize, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    SHADE_CHECK(found != MAP_FAILED, "no addresses for the emulated device");
    return reinterpret_cast<uintptr_t>(found);
  }
};
Arena& arena() {
  static auto& one = *new Arena;
  return one;
}

void host_touch(int, siginfo_t* info, void*) {
  std::signal(SIGSEGV, SIG_DFL);
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (!in_arena(address)) return;  // to fault again
  const auto message =
      text("the host touched memory of a device: ", describe_address(address), "; copy the tensor to the CPU first\n");
  (void)!::write(STDERR_FILENO, message.data(), message.size());
}

}  // namespace

uintptr_t reserve_addresses(size_t bytes) {
  const auto begin = arena().used.fetch_add(bytes);
  SHADE_CHECK(begin + bytes <= kSize, "the emulated device has run out of addresses");
  return arena().addresses + begin;
}

void give_back_pages(uintptr_t address, size_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const auto begin = (arena().bytes + (address - arena().addresses) + kPage - 1) / kPage * kPage;
  const auto end = (arena().bytes + (address - arena().addresses) + bytes) / kPage * kPage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

bool in_arena(uintptr_t address) { return address >= arena().addresses && address < arena().addresses + kSize; }

void* bytes_at(const void* device_address) {
  const auto address = reinterpret_cast<uintptr_t>(device_address);
  SHADE_CHECK(in_arena(address), "not an address of the emulated device");
  return reinterpret_cast<void*>(arena().bytes + (address - arena().addresses));
}

}  // namespace shade::test::device
