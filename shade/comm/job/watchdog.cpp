#include "shade/comm/job/watchdog.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/board.h"
#include "shade/comm/job/task.h"

namespace shade::comm {
namespace {

// Shares of peer_timeout: stillness is judged after 0.6 of it; the verdict reaches every rank and the last process is
// gone well before the rest is used up.
constexpr double kStill = 0.6;
constexpr Seconds kBeat{2.5e-4};  // of the store's time, for each rank and round

}  // namespace

Seconds beat_interval(Seconds peer_timeout, int ranks) {
  return std::clamp<Seconds>(ranks * kBeat, peer_timeout / 30, peer_timeout / 10);
}

struct Watchdog::State {
  State(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Activity> watched, WatchdogOptions given)
      : activity(std::move(watched)),
        options(std::move(given)),
        board(std::move(store), options.session),
        round(beat_interval(options.peer_timeout, options.size)),
        patience(kStill * options.peer_timeout / round),
        peers(static_cast<size_t>(options.size)) {}

  struct Peer {
    uint64_t count = 0;
    int still = 0;  // rounds without a new beat
  };

  void post(Standing standing, const std::string& why = {}) {
    if (options.settle) options.settle();
    const auto now = activity->snapshot(options.peer_timeout);
    board.post(options.rank, {.count = ++count,
                              .standing = standing,
                              .waiting = now.waiting,
                              .progress = now.progress,
                              .where = why.empty() ? now.where : why});
  }

  // The talker: all traffic with the store, so that a store that doesn't answer blocks only this thread.
  void talk() {
    for (Seconds rest = round;;) {
      {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, rest, [this] { return closing; });
        if (closing) return;
      }
      const auto begin = Clock::now();
      try {
        post(watching ? Standing::running : Standing::joining);
        if (options.rank == 0 || !watching || !zero_is_fresh())
          if (auto verdict = board.verdict()) return lose({*verdict});
        if (watching) judge();
        contact = true;
        rest = std::max<Seconds>(round - (Clock::now() - begin), round / 2);  // a store that is late is spared
      } catch (const SealBroken& fault) {
        report_intruder(fault.what());
        return;
      } catch (const std::exception& fault) {
        lose({text("the store at ", options.store_host, " is gone (", first_line(fault.what()),
                   "); the process that hosts it, rank 0 or the launcher, has ended")});
        return;
      }
    }
  }

  // The timekeeper: notices that the talker itself hangs, i.e. that the host of the store is stopped.
  void keep_time() {
    int silent = 0;
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, round, [this] { return closing; })) {
      if (loss) {
        if (++overdue_rounds * round >= Seconds(1) && options.overdue) {
          lock.unlock();
          options.overdue(*loss);
          return;
        }
        continue;
      }
      silent = contact.exchange(false) ? 0 : silent + 1;
      if (silent > patience + 2) {
        lock.unlock();
        lose({text("the store at ", options.store_host, " has not answered for ", to_string(silent * round),
                   "; the process that hosts it, rank 0 or the launcher, is stopped")});
        lock.lock();
      }
    }
  }

  static std::string first_line(const std::string& words) { return words.substr(0, words.find('\n')); }

  void judge() {
    if (options.rank == 0) {
      const auto beats = board.read_all(options.size);
      std::vector<int> still;
      for (int rank = 1; rank < options.size; ++rank) {
        const auto& beat = beats[static_cast<size_t>(rank)];
        if (beat.standing == Standing::failed) return end_job(text("rank ", rank, " failed: ", beat.where));
        if (is_still(rank, beat)) still.push_back(rank);
      }
      if (!still.empty())
        return end_job(text(still.size() == 1 ? "rank " : "ranks ", ranges(still), still.size() == 1 ? " is" : " are",
                            " stopped or dead: no sign of life for ", to_string(kStill * options.peer_timeout)));
      judge_stall(beats);
    } else if (zero) {
      if (zero->standing == Standing::failed) return end_job(text("rank 0 failed: ", zero->where));
      if (is_still(0, *zero))
        end_job(text("rank 0 is stopped or dead: no sign of life for ", to_string(kStill * options.peer_timeout)));
    }
  }

  // Rank 0 reads the verdict in every round, and beats no more when there is one: then the others look for it too.
  bool zero_is_fresh() {
    zero = board.read(0);
    return zero && zero->standing == Standing::running && zero->count != peers[0].count;
  }

  bool is_still(int rank, const Beat& beat) {
    if (beat.standing == Standing::left) return false;
    auto& peer = peers[static_cast<size_t>(rank)];
    peer.still = peer.count == beat.count ? peer.still + 1 : 0;
    peer.count = beat.count;
    return peer.still > patience;
  }

  // All are alive and waiting, and nothing moves: ranks wait for each other in different operations.
  void judge_stall(const std::vector<Beat>& beats) {
    uint64_t progress = 0;
    bool all_wait = true;
    for (const auto& beat : beats) {
      progress += beat.progress;
      all_wait = all_wait && (beat.waiting || beat.standing == Standing::left);
    }
    stalled = all_wait && progress == last_progress ? stalled + 1 : 0;
    last_progress = progress;
    if (stalled * round > options.stall_timeout)
      end_job(text("all ranks are alive and wait for each other; nothing has moved for ",
                   to_string(options.stall_timeout), ": the ranks don't issue the same collectives in the same order"));
  }

  void end_job(const std::string& cause) {
    board.set_verdict(text(cause, ". Where the ranks were: ", board.positions(options.size)));
    lose({board.verdict().value_or(cause)});  // somebody else's verdict may have come first
  }

  // Not every rank reads every value: the others are told, if the store lets us.
  void report_intruder(const std::string& message) {
    try {
      board.set_verdict(message);
    } catch (const std::exception& fault) {
      log::debug("the others could not be told: ", first_line(fault.what()));
    }
    lose({message, /*echo=*/false});
  }

  // A backend's abort may block, and the timekeeper must be able to end the process meanwhile.
  void lose(const Loss& found) {
    {
      const std::lock_guard lock(mutex);
      if (closing || loss) return;
      loss = found;
      if (!options.lost) return;
      try {
        ender = Task([lost = options.lost, found] { lost(found); });
        return;
      } catch (const std::system_error&) {  // no more threads
      }
    }
    options.lost(found);
  }

  // Stops the talker; false if it hangs in the store.
  bool settle() {
    {
      const std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    return talker.ends_within(Seconds(1));
  }

  void post_last(Standing standing, const std::string& why) {
    if (!settle() || loss) return;  // lost: the cause is on the board already, ours is an echo
    try {
      post(standing, why);
    } catch (const std::exception& fault) {
      log::debug("could not post '", to_string(standing), "': ", fault.what());
    }
  }

  std::shared_ptr<Activity> activity;
  WatchdogOptions options;
  Board board;
  Seconds round;
  double patience;  // rounds without a new beat
  std::vector<Peer> peers;
  std::optional<Beat> zero;  // rank 0's, as the others have read it in this round
  uint64_t count = 0;
  uint64_t last_progress = 0;
  int stalled = 0;

  std::atomic<bool> watching{false};
  std::atomic<bool> contact{true};
  std::mutex mutex;
  std::condition_variable changed;
  bool closing = false;
  std::optional<Loss> loss;
  int overdue_rounds = 0;
  Task talker, ender;
  std::thread timekeeper;
};

Watchdog::Watchdog(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Activity> activity, WatchdogOptions options)
    : state_(std::make_unique<State>(std::move(store), std::move(activity), std::move(options))) {
  state_->post(Standing::joining);
  state_->talker = Task([state = state_.get()] { state->talk(); });
  try {
    state_->timekeeper = std::thread([state = state_.get()] { state->keep_time(); });
  } catch (const std::system_error&) {  // no more threads: the talker ends before what it uses
    if (!state_->settle() || !state_->talker.join_within(Seconds(1))) (void)state_.release();
    throw;
  }
}

Watchdog::~Watchdog() {
  state_->settle();
  state_->timekeeper.join();
  const bool ended = state_->talker.join_within(Seconds(1));
  // The talker may hang in a store whose host is stopped, the ender in a backend: what they use outlives this object.
  if (!state_->ender.join_within(Seconds(1)) || !ended) (void)state_.release();
}

void Watchdog::all_joined() { state_->watching = true; }
void Watchdog::leave() { state_->post_last(Standing::left, {}); }
void Watchdog::fail(const std::string& reason) { state_->post_last(Standing::failed, reason); }
void Watchdog::lose(const std::string& reason) { state_->post_last(Standing::lost, reason); }

}  // namespace shade::comm
