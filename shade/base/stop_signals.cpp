#include "shade/base/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "shade/base/error.h"

namespace shade {

namespace {

constexpr std::array kSignals{SIGTERM, SIGINT};
constexpr int64_t kSameRequest_ms = 500;

std::atomic<int64_t> asked_at_ms{0};  // 0: not yet
std::atomic<int> to_answerer{-1};

int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Only what a handler may call.
void note(int signal) {
  const int fault = errno;
  const auto now = now_ms();
  int64_t first = 0;
  if (asked_at_ms.compare_exchange_strong(first, now)) {
    [[maybe_unused]] const auto written = ::write(to_answerer, "?", 1);
  } else if (now - first >= kSameRequest_ms) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    if (::getpid() == 1) ::_exit(128 + signal);  // by default signals do nothing to a container's first process
  }
  errno = fault;
}

}  // namespace

StopSignals::StopSignals(std::function<void()> answer) {
  SHADE_CHECK(to_answerer < 0, "two StopSignals at a time");
  SHADE_CHECK(::pipe2(pipe_.data(), O_CLOEXEC) == 0, "pipe: ", std::strerror(errno));
  asked_at_ms = 0;
  answerer_ = std::thread([answer = std::move(answer), from = pipe_[0]] {
    char word = 0;
    while (true) {
      const auto count = ::read(from, &word, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count != 1 || word != '?') return;
      answer();
    }
  });
  to_answerer = pipe_[1];  // only now: a thread that can't be started leaves nothing behind
  for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = std::signal(kSignals[i], note);
  ignore_broken_pipes();
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
  to_answerer = -1;
  [[maybe_unused]] const auto written = ::write(pipe_[1], ".", 1);
  answerer_.join();
  for (const int end : pipe_) ::close(end);
}

void ignore_broken_pipes() {
  struct sigaction present{};
  if (::sigaction(SIGPIPE, nullptr, &present) == 0 && present.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

bool StopSignals::asked() { return asked_at_ms != 0; }

}  // namespace shade
