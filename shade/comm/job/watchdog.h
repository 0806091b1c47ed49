// Notices a stopped or dead peer and ends this rank, in place of the 30-minute time limits of c10d.
//
// Every rank posts a beat with its position on the board a few times a second, or less often in a large world. Rank 0
// reads all beats and declares the world dead when one stands still; the others read rank 0's beat, and the verdict if
// that is not a new one, so the store is asked O(W) times a round, not O(W^2). Waiting for a slow peer is no failure:
// its beat goes on. A wait of a device's stream blocks no thread: an operation that the device has not completed within
// peer_timeout counts as waited for. Time is counted in rounds of our own making, so a job that was suspended as a
// whole (Ctrl-Z, a paused machine) resumes without a false alarm.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <memory>
#include <string>

#include "shade/base/units.h"
#include "shade/comm/activity.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/session.h"

namespace c10d {
class Store;
}

namespace shade::comm {

struct WatchdogOptions {
  int rank = 0;
  int size = 1;
  std::string session = kOnlySession;
  Seconds peer_timeout{10};      // a stopped or dead peer ends the job within this time
  Seconds stall_timeout{300};    // all ranks alive, all waiting, nothing moves
  std::string store_host;        // for the message when the store itself is gone
  std::function<void()> settle;  // before each beat: asks devices how far they are, without waiting for them
  // Called once, from a separate thread. Must make waiting threads return; it may block itself.
  std::function<void(const Loss&)> lost;
  // If the process is still here a second later (it computes, or is stuck elsewhere): called from another thread.
  std::function<void(const Loss&)> overdue;
};

// The time between two beats of a rank: a 30th of the time limit, and more if the store would hear more than four
// thousand beats a second, up to a tenth.
Seconds beat_interval(Seconds peer_timeout, int ranks);

class Watchdog {
 public:
  Watchdog(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Activity> activity, WatchdogOptions options);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void all_joined();                     // from now on every rank is watched
  void leave();                          // this rank is done: its silence is no failure
  void fail(const std::string& reason);  // this rank failed: tell the others why
  void lose(const std::string& reason);  // this rank ends because it lost another

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shade::comm
