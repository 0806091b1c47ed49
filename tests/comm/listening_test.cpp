// Nobody gets in: a single-host world listens on loopback only. Read from the kernel's own table while ranks run.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "shade/base/strings.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {

// Inodes of the sockets this process (or our launcher, which hosts the store) holds open.
std::set<std::string> sockets_of(int pid) {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator(text("/proc/", pid, "/fd"))) {
    std::error_code ignored;
    const auto target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

struct Listening {
  std::string address;
  std::string inode;
};

std::vector<Listening> listening(const char* table) {
  std::vector<Listening> found;
  std::ifstream in(table);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
    constexpr const char* kListen = "0A";
    if (cells.size() > 9 && cells[3] == kListen) found.push_back({cells[1].substr(0, cells[1].find(':')), cells[9]});
  }
  return found;
}

TEST(Listening, LoopbackOnly) {
  test::run_ranks(2, test::As::processes, [](World& world) {
    const auto group = world.group("g");
    auto tensor = at::ones({4});
    group.all_reduce(tensor).wait();
    int ours = 0;
    for (const int pid : {::getpid(), ::getppid()}) {
      const auto inodes = sockets_of(pid);
      for (const auto& socket : listening("/proc/net/tcp")) {
        if (!inodes.contains(socket.inode)) continue;
        ++ours;
        EXPECT_EQ(socket.address, "0100007F") << "process " << pid << " listens outside of 127.0.0.1";
      }
      for (const auto& socket : listening("/proc/net/tcp6"))
        EXPECT_FALSE(inodes.contains(socket.inode)) << "process " << pid << " listens on IPv6 " << socket.address;
    }
    EXPECT_EQ(ours, 1) << "the store listens, which this test must see; groups that are connected don't";
    group.barrier().wait();
  });
}

TEST(Listening, AWorldOfOneOpensNoSocket) {
  const auto before = sockets_of(::getpid());
  auto world = World::connect({}, {});
  auto tensor = at::ones({4});
  world.group("g").all_reduce(tensor).wait();
  EXPECT_EQ(sockets_of(::getpid()), before);
  world.leave();
}

}  // namespace
}  // namespace shade::comm
