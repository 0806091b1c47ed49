// Which start of the world this is, in a store and under a secret that may have seen others.
//
// torchrun's agent keeps its store over restarts, and what it says about them (TORCHELASTIC_RESTART_COUNT) is each
// agent's own count: one whose rank failed counts a restart, one that only joins the next round doesn't. A secret may
// serve many jobs. So ranks agree on a name themselves. Rank 0 makes one; every other rank leaves a note with a random
// word and is told the name under that word, which no earlier rank 0 can have answered. Notes of earlier ranks are
// answered too, but no rank reads those. The name is part of every key, and values are sealed under their key
// (comm/job/sealed_store.h): what was recorded in one start is of no use in another.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <string>
#include <vector>

#include "shade/base/units.h"
#include "shade/comm/errors.h"

namespace c10d {
class Store;
}

namespace shade::comm {

inline constexpr const char* kOnlySession = "0";  // of a store and a secret that were made for one start alone

// `theirs` wrote a value that doesn't open for `own`.
CommError other_secret(const std::vector<int>& theirs, int own, const std::string& key);

// Rank 0's side.
class SessionHost {
 public:
  SessionHost(c10::intrusive_ptr<c10d::Store> store, int size);
  const std::string& session() const { return session_; }
  // All notes that have come since, of ranks from `first` on; call it again until all ranks have come.
  void answer(int first = 1);

 private:
  void answer_those(size_t first, size_t end);

  c10::intrusive_ptr<c10d::Store> store_;
  std::string session_;
  std::vector<std::string> answered_;  // the last word of each rank
};

// Everybody else's.
class SessionClient {
 public:
  SessionClient(c10::intrusive_ptr<c10d::Store> store, int rank);
  // The session, once rank 0 has answered; waits for it a few seconds, `limit` at most.
  std::optional<std::string> session(Seconds limit = Seconds(0));

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  std::string word_;
};

}  // namespace shade::comm
