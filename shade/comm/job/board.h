// The board: where every rank's last known position hangs, in the world's store. The watchdog writes and reads it; the
// launcher, which hosts the store, reads it when a rank dies.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shade/base/names.h"

namespace c10d {
class Store;
}

namespace shade::comm {

enum class Standing { joining, running, left, failed, lost };  // lost: ended because another rank failed

inline std::span<const Name<Standing>> names_of(Standing) {
  static constexpr Name<Standing> kNames[] = {{"joining", Standing::joining},
                                              {"running", Standing::running},
                                              {"left", Standing::left},
                                              {"failed", Standing::failed},
                                              {"lost", Standing::lost}};
  return kNames;
}

struct Beat {
  uint64_t count = 0;  // grows with every beat: a standing count is a stopped or dead rank
  Standing standing = Standing::joining;
  bool waiting = false;
  uint64_t progress = 0;
  std::string where;  // "waits in all_gather unit 7"; for failed: why

  std::string print() const;
  static Beat parse(const std::string& line);
};

// Not thread-safe: one board per thread, each with its own connection. A board remembers the beats it has read: one
// that is gone, or older than before, is SealBroken.
class Board {
 public:
  Board(c10::intrusive_ptr<c10d::Store> store, const std::string& session);

  void post(int rank, const Beat& beat);
  std::optional<Beat> read(int rank);
  bool any(int ranks);                    // has a rank joined?
  std::vector<Beat> read_all(int ranks);  // all must have joined

  // The first verdict stays; every rank that reads it ends with it.
  void set_verdict(const std::string& verdict);
  std::optional<std::string> verdict();

  // "rank 2 waits in all_gather unit 7; ranks 0, 1, 3 wait in all_gather unit 8"
  std::string positions(int ranks);

 private:
  Beat taken(int rank, const std::string& line);
  std::vector<std::optional<Beat>> look(int ranks);

  std::string prefix_;
  c10::intrusive_ptr<c10d::Store> store_;
  std::map<int, uint64_t> counts_;  // of the last beat of each rank
};

std::string describe_positions(std::span<const std::optional<Beat>> beats);

}  // namespace shade::comm
