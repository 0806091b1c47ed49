// Starting again after a failure.

#include "shade/comm/job/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "shade/base/argv.h"
#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/log.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/board.h"
#include "shade/comm/job/file_limit.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/comm/job/secret.h"
#include "shade/comm/job/session.h"
#include "shade/comm/store.h"

extern char** environ;

namespace shade::comm {
namespace {

// What ranks write, passed on.

// One stream of one rank: complete lines go out with the rank's prefix, the last one is remembered for the report.
// Bytes are passed on as they are: colours belong to the command, which would write them without us too. Who shows text
// of a file makes it visible first (base/visible_text.h), as all our verbs do, and as reports do with the last words.
class Relay {
 public:
  Relay(int from, std::FILE* to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {}
  ~Relay() { close(); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int descriptor() const { return from_; }  // to be polled; -1 at its end
  const std::string& last_text() const { return last_text_; }
  void pump();  // what is there now

 private:
  void emit(const std::string& line);
  void close();

  int from_;
  std::FILE* to_;
  std::string prefix_;
  std::string line_;
  std::string last_text_;
};

void Relay::pump() {
  std::array<char, 16384> buffer{};
  while (from_ >= 0) {
    const auto count = ::read(from_, buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return close();
    line_.append(buffer.data(), static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
      emit(line_.substr(begin, end - begin));
    line_.erase(0, begin);
  }
}

void Relay::emit(const std::string& line) {
  const auto whole = prefix_ + line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), to_);  // a NUL is passed on as well
  std::fflush(to_);
  if (!line.empty()) last_text_ = line;
}

void Relay::close() {
  if (from_ < 0) return;
  if (!line_.empty()) emit(std::exchange(line_, {}));
  ::close(from_);
  from_ = -1;
}

void check(const LaunchOptions& options) {
  SHADE_REQUIRE(options.ranks >= 1 && options.ranks <= 4096, "cannot start ", options.ranks,
                " ranks on one host; expected 1 to 4096");
  SHADE_REQUIRE(!options.command.empty(), "nothing to launch; expected a command after --");
  SHADE_REQUIRE(options.min_ranks <= options.ranks, "at least ", options.min_ranks, " of ", options.ranks,
                " ranks are wanted; expected at most all");
}

// Not if it was we who were asked to end, nor after a wrong option or file, which would be as wrong again.
bool may_be_repeated(const LaunchResult& result) {
  return result.first && result.first->rank >= 0 && result.status != 2;
}

}  // namespace

LaunchResult launch(const LaunchOptions& options) {
  check(options);
  auto attempt = options;
  for (int restart = 0;; ++restart) {
    auto result = start_ranks(attempt, restart);
    result.restarts = restart;
    if (!may_be_repeated(result) || restart == options.max_restarts) return result;
    if (options.min_ranks > 0) attempt.ranks = std::max(options.min_ranks, attempt.ranks - 1);
    log::warning("rank ", result.first->rank, " failed first: ", result.first->reason, "; restart ", restart + 1,
                 " of ", options.max_restarts, " with ", attempt.ranks, attempt.ranks == 1 ? " rank" : " ranks");
  }
}

namespace {

constexpr Seconds kTick{0.05};
constexpr std::chrono::milliseconds kSameRequest{500}, kLastMoment{1000};

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? text("SIG", name) : text("signal ", number);
}

struct Rank {
  int rank = 0;
  pid_t pid = -1;
  bool gone = false;
  bool stopped = false;
  Seconds stopped_for{0};
  int status = 0;  // waitpid's
  int order = 0;   // among those that are gone
  std::vector<std::unique_ptr<Relay>> relays;

  bool failed() const { return gone && status != 0; }
  // It ended because another rank had failed, and says so.
  bool echo() const { return gone && WIFEXITED(status) && WEXITSTATUS(status) == kPeerLostStatus; }

  std::string how_it_ended() const {
    if (!gone) return text("stopped for ", to_string(stopped_for));
    if (WIFEXITED(status)) return text("exit status ", WEXITSTATUS(status));
    return text("killed by signal ", WTERMSIG(status), " (", signal_name(WTERMSIG(status)), ")");
  }
  int exit_status() const {
    if (!gone) return stopped ? 128 + SIGSTOP : 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string last_text() const {  // a program's last line before it exited; a killed one said nothing about it
    if (!gone || !WIFEXITED(status) || relays.empty()) return {};
    return relays.back()->last_text();
  }
};

void make_pipe(std::array<int, 2>& ends) {
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(text("cannot make a pipe to a rank: ", reason_of(errno)));
}

// Each rank has two pipes here too.
HostedStore hosted(int ranks) {
  allow_sockets((kStoreSockets + 2) * ranks, text("a launch of ", ranks, " ranks"));
  return host_store("127.0.0.1", 0, Seconds(60));
}

// Blocks the signals we pass on, before any thread exists that they could be delivered to instead of the descriptor.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t watched{};
    ::sigemptyset(&watched);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
      ::sigaddset(&watched, signal);
    ::pthread_sigmask(SIG_BLOCK, &watched, &previous_);
    descriptor_ = ::signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
    SHADE_CHECK(descriptor_ >= 0, "signalfd: ", std::strerror(errno));
  }
  ~SignalQueue() {
    ::close(descriptor_);
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int descriptor() const { return descriptor_; }
  const sigset_t& previous() const { return previous_; }

 private:
  int descriptor_ = -1;
  sigset_t previous_{};
};

class Launch {
 public:
  Launch(const LaunchOptions& options, int restart)
      : options_(options),
        restart_(restart),
        store_(hosted(options.ranks)),
        board_(c10::make_intrusive<SealedStore>(store_.store, Secret::of(secret_)), kOnlySession) {}

  LaunchResult run() {
    try {
      for (int rank = 0; rank < options_.ranks; ++rank) start(rank);
    } catch (...) {
      kill_all(SIGKILL);
      throw;
    }
    sodium_memzero(secret_.data(), secret_.size());
    while (!all_gone()) {
      wait_for_something();
      if (failed_ && !ending_) end_the_rest();
      if (ending_ && Clock::now() > kill_at_) kill_all(SIGKILL);
    }
    for (auto& rank : ranks_)
      for (auto& relay : rank.relays) relay->pump();
    return result();
  }

 private:
  // --- starting ---------------------------------------------------------------------------------------------------

  // Without the secret: it must be in no string that is not wiped.
  std::vector<std::string> environment_of(int rank) const {
    std::map<std::string, std::string> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view line(*entry);
      const auto equals = line.find('=');
      const auto name = line.substr(0, equals);
      if (name == kSecretVariable || name == kSecretFileVariable) continue;  // of a job that we are part of
      if (equals != std::string_view::npos) all[std::string(name)] = line.substr(equals + 1);
    }
    const auto world = std::to_string(options_.ranks);
    const auto local = std::to_string(rank);
    const std::map<std::string, std::string> stated{
        {"RANK", local},
        {"LOCAL_RANK", local},
        {"WORLD_SIZE", world},
        {"LOCAL_WORLD_SIZE", world},
        {"GROUP_RANK", "0"},
        {"GROUP_WORLD_SIZE", "1"},
        {"ROLE_RANK", local},
        {"ROLE_WORLD_SIZE", world},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(store_.port)},
        {"TORCHELASTIC_USE_AGENT_STORE", "True"},
        {"TORCHELASTIC_RESTART_COUNT", std::to_string(restart_)},
        {"TORCHELASTIC_MAX_RESTARTS", std::to_string(options_.max_restarts)},
        {"SHADE_STORE_PORT", std::to_string(store_.port)},
        {"TORCHELASTIC_RUN_ID", text("shade-", ::getpid())}};
    for (const auto& [key, value] : stated) all[key] = value;
    // Ranks share the cores; libtorch would give every rank all of them.
    const auto cores = std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(options_.ranks));
    all.emplace("OMP_NUM_THREADS", std::to_string(cores));
    for (const auto& [key, value] : options_.environment) all[key] = value;
    std::vector<std::string> lines;
    for (const auto& [key, value] : all) lines.push_back(key + "=" + value);
    return lines;
  }

  void start(int number) {
    Rank rank;
    rank.rank = number;
    const bool direct = options_.pass_rank0 && number == 0;
    std::array<std::array<int, 2>, 2> pipes{};
    if (!direct)
      for (auto& pipe : pipes) make_pipe(pipe);
    std::array<int, 2> report{};  // stays open until exec succeeds; carries errno if it doesn't
    make_pipe(report);

    auto words = options_.command;
    auto lines = environment_of(number);
    auto& secret = lines.emplace_back();
    secret.reserve(std::strlen(kSecretVariable) + 1 + secret_.size());
    secret.append(kSecretVariable).append("=").append(secret_);
    const auto argv = argv_of(words);
    const auto envp = argv_of(lines);
    const pid_t parent = ::getpid();
    rank.pid = ::fork();
    if (rank.pid < 0) throw Error(cannot_start(text("rank ", number, " of ", options_.ranks), errno));
    if (rank.pid == 0) {  // only async-signal-safe calls from here to exec
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      if (!direct) {
        ::dup2(pipes[0][1], STDOUT_FILENO);
        ::dup2(pipes[1][1], STDERR_FILENO);
      }
      ::pthread_sigmask(SIG_SETMASK, &signals_.previous(), nullptr);
      ::execvpe(argv[0], argv.data(), envp.data());
      const int why = errno;
      [[maybe_unused]] const auto written = ::write(report[1], &why, sizeof why);
      ::_exit(127);
    }
    sodium_memzero(secret.data(), secret.size());
    ::setpgid(rank.pid, rank.pid);
    ::close(report[1]);
    int why = 0;
    const auto count = ::read(report[0], &why, sizeof why);
    ::close(report[0]);
    if (!direct) {
      const auto prefix = options_.prefix ? text("[", number, "] ") : "";
      for (size_t stream = 0; stream < 2; ++stream) {
        ::close(pipes[stream][1]);
        ::fcntl(pipes[stream][0], F_SETFL, O_NONBLOCK);
        rank.relays.push_back(std::make_unique<Relay>(pipes[stream][0], stream == 0 ? stdout : stderr, prefix));
      }
    }
    ranks_.push_back(std::move(rank));
    if (count == sizeof why) throw UsageError(text("cannot run '", options_.command[0], "': ", std::strerror(why)));
  }

  // --- watching ---------------------------------------------------------------------------------------------------

  void wait_for_something() {
    std::vector<pollfd> polled{{signals_.descriptor(), POLLIN, 0}};
    for (const auto& rank : ranks_)
      for (const auto& relay : rank.relays)
        if (relay->descriptor() >= 0) polled.push_back({relay->descriptor(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(Millis(kTick).count()));
    for (auto& rank : ranks_)
      for (auto& relay : rank.relays) relay->pump();
    handle_signals();
    for (auto& rank : ranks_) reap(rank);
    judge_stops();
  }

  void handle_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.descriptor(), &info, sizeof info) == sizeof info) {
      const int number = static_cast<int>(info.ssi_signo);
      if (number == SIGCHLD) continue;
      if (number == SIGTSTP) {
        kill_all(SIGSTOP);
        ::kill(::getpid(), SIGSTOP);
        kill_all(SIGCONT);
        continue;
      }
      log::info("passing ", signal_name(number), " on to the ranks");
      kill_all(number);
      if (number == SIGINT || number == SIGTERM || number == SIGHUP) asked(number);
    }
  }

  // Ranks may finish what they are at. Asked again, they have a moment to go; the terminal and another launcher may
  // both pass the same request on.
  void asked(int number) {
    const auto now = Clock::now();
    if (asked_to_end_ == 0) asked_at_ = now;
    asked_to_end_ = number;
    if (ending_ || now - asked_at_ < kSameRequest) return;
    failed_ = ending_ = true;
    kill_at_ = now + kLastMoment;
  }

  void reap(Rank& rank) {
    int status = 0;
    while (!rank.gone && ::waitpid(rank.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) == rank.pid) {
      rank.stopped = WIFSTOPPED(status);
      rank.stopped_for = Seconds(0);
      if (WIFSTOPPED(status) || WIFCONTINUED(status)) continue;
      rank.gone = true;
      rank.status = status;
      rank.order = ++gone_;
      for (auto& relay : rank.relays) relay->pump();
      if (rank.failed()) failed_ = true;
    }
  }

  // A round counts for two ticks at most: if we were stopped too, that time doesn't count.
  void judge_stops() {
    const auto now = Clock::now();
    const auto round = std::min<Seconds>(now - last_round_, 2 * kTick);
    last_round_ = now;
    for (auto& rank : ranks_) {
      if (rank.gone || !rank.stopped) continue;
      rank.stopped_for += round;
      if (rank.stopped_for >= 0.75 * options_.peer_timeout) failed_ = true;
    }
  }

  // --- ending -----------------------------------------------------------------------------------------------------

  void end_the_rest() {
    ending_ = true;
    // An echo may overtake its cause, and positions are posted a few times a second: look on for a moment before the
    // others are ended by us.
    for (const auto until = Clock::now() + std::chrono::milliseconds(500); !all_gone() && Clock::now() < until;)
      wait_for_something();
    note_culprit();
    kill_all(SIGTERM);
    for (const auto& rank : ranks_)
      if (!rank.gone && rank.stopped) ::kill(-rank.pid, SIGKILL);  // a stopped process doesn't hear SIGTERM
    const auto grace = asked_to_end_ == 0 ? options_.grace : Seconds(kLastMoment);
    kill_at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace);
  }

  // The first rank that ended badly of its own accord; else the one that is stopped; else one that is about to end and
  // has said why on the board; else the first echo.
  void note_culprit() {
    const Rank* culprit = nullptr;
    const auto better = [&](const Rank& rank) {
      const auto weight = [](const Rank& r) { return r.failed() && !r.echo() ? 2 : r.stopped ? 1 : 0; };
      if (culprit == nullptr || weight(rank) != weight(*culprit))
        return culprit == nullptr || weight(rank) > weight(*culprit);
      return rank.order < culprit->order;
    };
    for (const auto& rank : ranks_)
      if ((rank.failed() || rank.stopped) && better(rank)) culprit = &rank;
    if (culprit == nullptr) return;

    auto reason = culprit->how_it_ended();
    auto words = culprit->last_text();
    std::string told;
    try {
      if (board_.any(options_.ranks)) {
        result_.positions = board_.positions(options_.ranks);
        for (const auto& rank : ranks_) {
          const auto beat = board_.read(rank.rank);
          if (!beat || beat->standing != Standing::failed) continue;
          if (culprit->echo()) {
            culprit = &rank;
            reason = "it failed";
          }
          if (culprit == &rank) words = told = beat->where;
        }
      }
    } catch (const std::exception& fault) {
      log::debug("the board could not be read: ", fault.what());
    }
    if (!words.empty()) reason += ": " + words;
    result_.status = culprit->exit_status();
    result_.first = RankFailure{culprit->rank, std::move(reason), std::move(told)};
  }

  void kill_all(int signal) {
    for (const auto& rank : ranks_)
      if (!rank.gone) ::kill(-rank.pid, signal);
  }

  bool all_gone() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.gone; });
  }

  LaunchResult result() const {
    if (failed_ && asked_to_end_ != 0)
      return {128 + asked_to_end_, RankFailure{-1, "ended by " + signal_name(asked_to_end_), {}}, {}};
    return result_;
  }

  SignalQueue signals_;  // before the store, which has a thread
  const LaunchOptions& options_;
  int restart_;
  std::string secret_ = Secret::new_digits();  // other users can't read the environment of our processes
  HostedStore store_;
  Board board_;
  std::vector<Rank> ranks_;
  int asked_to_end_ = 0;  // a signal
  Clock::time_point asked_at_;
  bool failed_ = false;
  bool ending_ = false;
  int gone_ = 0;
  LaunchResult result_;
  Clock::time_point kill_at_;
  Clock::time_point last_round_ = Clock::now();
};

}  // namespace

LaunchResult start_ranks(const LaunchOptions& options, int restart) { return Launch(options, restart).run(); }

}  // namespace shade::comm
