// What a host could still give, read from a made-up /proc and /sys.
#include "shade/profile/host_memory.h"

#include <gtest/gtest.h>

#include <map>

#include "shade/base/error.h"
#include "tests/io/scratch.h"

namespace shade::profile {
namespace {

class Host : public testing::Test {
 protected:
  void has(const std::string& file, const std::string& content) const {
    io::write_file(scratch_.path() / file, content);
  }
  HostMemory memory() const { return host_memory(scratch_.path()); }

  io::Scratch scratch_;
};

const std::string kMeminfo =
    "MemTotal:       24682740 kB\nMemFree:  1000 kB\nMemAvailable:   8192 kB\nSwapTotal: 9 kB\nSwapFree:  2048 kB\n";

TEST_F(Host, WhatTheKernelSays) {
  has("proc/meminfo", kMeminfo);
  EXPECT_EQ(memory().available, MiB(8));
  EXPECT_EQ(memory().swap, MiB(2));
  EXPECT_EQ(memory().total, KiB(24682740));
  has("proc/meminfo", "MemTotal: 5 kB\n");
  EXPECT_THROW(memory(), Error);
  EXPECT_GT(host_memory().available.count, 0) << "of this machine";
}

TEST_F(Host, AControlGroupOrItsParentAllowsLess) {
  has("proc/meminfo", kMeminfo);
  has("proc/self/cgroup", "0::/slice/job\n");
  has("sys/fs/cgroup/slice/job/memory.max", "max\n");
  EXPECT_EQ(memory().available, MiB(8)) << "no limit";
  has("sys/fs/cgroup/slice/memory.max", "5242880\n");
  has("sys/fs/cgroup/slice/memory.stat", "anon 1048576\nfile 3145728\n");
  EXPECT_EQ(memory().available, MiB(4)) << "files in the cache can be given up";
  has("sys/fs/cgroup/slice/job/memory.max", "3145728\n");
  EXPECT_EQ(memory().available, MiB(3));
  has("sys/fs/cgroup/slice/job/memory.stat", "anon 9999999\n");
  EXPECT_EQ(memory().available, Bytes{0}) << "more is used than allowed";
  has("sys/fs/cgroup/slice/job/memory.max", "99999999999\n");
  EXPECT_EQ(memory().available, MiB(4)) << "the least of all";
}

TEST_F(Host, AControlGroupOfTheFirstVersion) {
  has("proc/meminfo", kMeminfo);
  has("proc/self/cgroup", "9:name=systemd:/\n4:memory:/docker/12ab\n1:cpu:/\n0::/\n");
  has("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory().available, MiB(8));
  has("sys/fs/cgroup/memory/memory.limit_in_bytes", "6291456\n");
  has("sys/fs/cgroup/memory/memory.stat", "cache 1\nrss 1\ntotal_rss 2097152\n");
  EXPECT_EQ(memory().available, MiB(4)) << "in a container its own folder is the root";
}

}  // namespace
}  // namespace shade::profile
