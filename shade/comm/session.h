// Which start of the world this is, in a store that has seen others.
//
// torchrun's agent keeps its store over restarts, and what it says about them (TORCHELASTIC_RESTART_COUNT) is each
// agent's own count: one whose rank failed counts a restart, one that only joins the next round doesn't. So ranks agree
// on a name of their own. Rank 0 makes one; everybody else leaves a note with a secret word and is told the name under
// that word, which no earlier rank 0 can have answered. Notes of earlier ranks are answered too, and nobody reads it.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace c10d {
class Store;
}

namespace shade::comm {

inline constexpr const char* kOnlySession = "0";  // of a store that was made for one start alone

// Rank 0's side.
class Reception {
 public:
  explicit Reception(c10::intrusive_ptr<c10d::Store> store);
  const std::string& session() const { return session_; }
  void answer();  // all notes that have come since; call it again until everybody is in

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::string session_;
  int64_t seen_ = 0;
  std::vector<int64_t> open_;  // numbers of notes that are not written yet
};

// Everybody else's.
class Visitor {
 public:
  explicit Visitor(c10::intrusive_ptr<c10d::Store> store);
  std::optional<std::string> told();  // the session, once rank 0 has answered

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::string word_;
};

}  // namespace shade::comm
