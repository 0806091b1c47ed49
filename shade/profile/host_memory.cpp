#include "shade/profile/host_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <optional>

#include "shade/base/error.h"
#include "shade/base/strings.h"

// jemalloc's, where it is linked.
extern "C" int mallctl(const char* name, void* out, size_t* out_size, void* in, size_t in_size) __attribute__((weak));

namespace shade::profile {
namespace {

namespace fs = std::filesystem;

// "MemAvailable:   123 kB" or "anon 123": the first number of each line by its first word.
std::map<std::string, int64_t> numbers_in(const fs::path& file) {
  std::map<std::string, int64_t> out;
  std::ifstream in(file);
  std::string key;
  int64_t value = 0;
  while (in >> key >> value) {
    out[key] = value;
    in.ignore(1 << 16, '\n');
  }
  return out;
}

std::optional<int64_t> number_in(const fs::path& file) {  // "max" is none
  std::ifstream in(file);
  int64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

// One hierarchy of control groups and the files that it has.
struct Hierarchy {
  fs::path mount;
  const char* limit;
  const char* used;  // in memory.stat: what can't be given up, unlike cached files
};

// The least that a group or one of its ancestors leaves. In a container the group's own folder may not be visible, and
// its limit is that of the mount.
std::optional<int64_t> left_in(const Hierarchy& hierarchy, const fs::path& group) {
  std::optional<int64_t> least;
  for (auto place = group.relative_path();; place = place.parent_path()) {
    const auto folder = hierarchy.mount / place;
    if (const auto limit = number_in(folder / hierarchy.limit)) {
      auto stat = numbers_in(folder / "memory.stat");
      const auto left = std::max<int64_t>(0, *limit - stat[hierarchy.used]);
      least = std::min(least.value_or(left), left);
    }
    if (place.empty()) return least;
  }
}

// Lines of /proc/self/cgroup are "4:memory:/path" (version 1) and "0::/path" (version 2).
std::optional<int64_t> left_by_groups(const fs::path& root) {
  const Hierarchy one{root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "total_rss"};
  const Hierarchy two{root / "sys/fs/cgroup", "memory.max", "anon"};
  std::optional<int64_t> least;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto parts = split(line, ':');
    if (parts.size() != 3 || (parts[1] != "memory" && !parts[1].empty())) continue;
    if (const auto left = left_in(parts[1].empty() ? two : one, parts[2]))
      least = std::min(least.value_or(*left), *left);
  }
  return least;
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
  const auto file = root / "proc/meminfo";
  auto kib = numbers_in(file);
  if (!kib.contains("MemAvailable:"))
    throw Error(text("cannot read how much memory is available from ", file.string(), "; set --memory-limit"));
  HostMemory out{.available = KiB(kib["MemAvailable:"]), .swap = KiB(kib["SwapFree:"]), .total = KiB(kib["MemTotal:"])};
  if (const auto left = left_by_groups(root)) out.available.count = std::min(out.available.count, *left);
  return out;
}

Bytes heap_reserved() {
  if (mallctl != nullptr) {
    size_t epoch = 1, resident = 0, size = sizeof(size_t);
    mallctl("epoch", nullptr, nullptr, &epoch, sizeof epoch);  // statistics are of the last epoch
    if (mallctl("stats.resident", &resident, &size, nullptr, 0) == 0) return {static_cast<int64_t>(resident)};
  }
  const auto heap = ::mallinfo2();
  return {static_cast<int64_t>(heap.arena + heap.hblkhd)};
}

void return_unused_heap() {
  if (mallctl != nullptr)
    mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // 4096: MALLCTL_ARENAS_ALL
  else
    ::malloc_trim(0);
}

}  // namespace shade::profile
