// The blocks of device and pinned memory and the accesses to them. Internal to memory.h's implementation.
#pragma once

#include <c10/core/Device.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/device/memory.h"

namespace shade::test::device {

struct Access {
  Extent bytes;
  Moment moment;
  bool write = false;
  std::string op;
  uint64_t life = 0;
};

struct Block {
  size_t size = 0;
  size_t requested = 0;
  c10::Device device = c10::kCPU;  // CPU: pinned memory
  size_t stream = 0;               // whose pool it belongs to
  std::string op;                  // that allocated it
  uint64_t life = 0;               // which allocation: the storage's number in messages
  bool live = false;
  std::vector<Access> accesses;
  std::vector<c10::Stream> recorded;
  Clock held_until;  // freed, with recorded streams: until the host knows this

  std::string describe() const;
};

struct Blocks {
  std::mutex mutex;
  std::map<uintptr_t, Block> all;  // by first address
  uint64_t lives = 0;

  Block* find(uintptr_t address);  // whose memory it is; null: nobody's
};
Blocks& blocks();  // never destroyed: storages are freed at the very end, too

const std::string& allocating_op();

}  // namespace shade::test::device
