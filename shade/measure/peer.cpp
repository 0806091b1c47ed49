#include "shade/measure/peer.h"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "shade/base/argv.h"
#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/units.h"

extern char** environ;

namespace shade::measure {
namespace {

constexpr Seconds kGrace{10};  // for a process to end by itself

// Where bench/peers and the peers' Python are: in SHADE_ROOT, or in the source tree whose build/PRESET/bin this program
// is in. Not where it was built: on another host that path may be anyone's.
std::filesystem::path root() {
  const char* given = std::getenv("SHADE_ROOT");
  if (given != nullptr) return given;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path().parent_path();
}

std::vector<std::string> environment_with(std::map<std::string, std::string> added) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string word(*entry);
    if (!added.contains(word.substr(0, word.find('=')))) out.push_back(word);
  }
  for (const auto& [key, value] : added) out.push_back(text(key, "=", value));
  return out;
}

}  // namespace

// A program whose standard input and output are one socket of ours.
class Peer::Process {
 public:
  Process(std::vector<std::string> command, std::vector<std::string> environment) {
    std::array<int, 2> ends{};
    SHADE_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0,
                "socketpair: ", std::strerror(errno));
    socket_ = ends[0];
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    const int fault = ::posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, argv_of(command).data(),
                                    argv_of(environment).data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (fault != 0) {
      ::close(socket_);
      throw Error(cannot_start(command[0], fault));
    }
  }
  ~Process() {
    hang_up();
    const auto begin = Clock::now();
    while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (Clock::now() - begin > kGrace) ::kill(pid_, SIGKILL);
      std::this_thread::sleep_for(Seconds(0.01));
    }
    ::close(socket_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int socket() const { return socket_; }
  void hang_up() const { ::shutdown(socket_, SHUT_WR); }  // the end of its input ends it

  void say(const std::string& line) const {  // that it is gone shows when its answer is missing
    (void)::send(socket_, line.data(), line.size(), MSG_NOSIGNAL);
  }

  // Reads what is there; false at the end of its output.
  bool listen() {
    std::array<char, 4096> buffer{};
    const auto count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    heard_.append(buffer.data(), static_cast<size_t>(count));
    return true;
  }

  std::optional<std::string> line() {
    const auto end = heard_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    auto out = heard_.substr(0, end);
    heard_.erase(0, end + 1);
    return out;
  }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string heard_;
};

Peer::Peer() = default;
Peer::Peer(Peer&&) noexcept = default;
Peer& Peer::operator=(Peer&& other) noexcept {
  stop();
  folder_ = std::move(other.folder_);
  processes_ = std::move(other.processes_);
  return *this;
}
Peer::~Peer() { stop(); }

Peer Peer::start(const Options& options) {
  const auto python = (root() / ".deps/peers/bin/python").string();
  const auto script = (root() / "bench/peers/step_server.py").string();
  SHADE_REQUIRE(
      std::filesystem::exists(python) && std::filesystem::exists(script), "the PyTorch peers are not installed (no ",
      python,
      "); run tools/bootstrap peers in the source tree, and set SHADE_ROOT to it if this program is not in its "
      "build folder");
  std::vector<std::string> command{python, script};
  command.insert(command.end(), options.arguments.begin(), options.arguments.end());
  Peer peer;
  if (options.ranks > 1) {
    peer.folder_ = std::make_unique<TemporaryFolder>("shade_peer");
    command.insert(command.end(), {"--store", (*peer.folder_ / "store").string()});
  }
  for (int rank = 0; rank < options.ranks; ++rank) {
    std::map<std::string, std::string> place;  // as torchrun states it; whatever place we have ourselves is not theirs
    if (options.ranks > 1)
      place = {{"RANK", text(rank)},
               {"LOCAL_RANK", text(rank)},
               {"WORLD_SIZE", text(options.ranks)},
               {"LOCAL_WORLD_SIZE", text(options.ranks)},
               {"OMP_NUM_THREADS", "1"},
               {"GLOO_SOCKET_IFNAME", "lo"}};
    peer.processes_.push_back(std::make_unique<Process>(command, environment_with(std::move(place))));
  }
  (void)peer.answers();  // ready
  return peer;
}

void Peer::stop() {
  for (const auto& process : processes_) process->hang_up();  // all at once, then wait for each
  processes_.clear();
  folder_.reset();
}

std::vector<Json> Peer::answers() {
  std::vector<Json> out(processes_.size());
  const auto unanswered = [&](size_t rank) { return out[rank].is_null(); };
  while (true) {
    std::vector<pollfd> waiting;
    for (size_t rank = 0; rank < out.size(); ++rank) {
      if (const auto line = unanswered(rank) ? processes_[rank]->line() : std::nullopt) out[rank] = Json::parse(*line);
      if (unanswered(rank)) waiting.push_back({processes_[rank]->socket(), POLLIN, 0});
    }
    if (waiting.empty()) break;
    (void)::poll(waiting.data(), waiting.size(), -1);
    for (size_t rank = 0; rank < out.size(); ++rank) {
      const auto spoke = std::any_of(waiting.begin(), waiting.end(), [&](const pollfd& p) {
        return p.fd == processes_[rank]->socket() && p.revents != 0;
      });
      if (spoke && !processes_[rank]->listen())
        throw Error(text("rank ", rank, " of the PyTorch peer ended without an answer; its message is above"));
    }
  }
  return out;
}

std::vector<Json> Peer::ask(const std::string& command) {
  SHADE_CHECK(!processes_.empty(), "'", command, "' was asked of a PyTorch peer that was stopped");
  for (const auto& process : processes_) process->say(command + "\n");
  return answers();
}

Millis Peer::step() {
  Millis slowest{0};
  for (const auto& answer : ask("run")) slowest = std::max(slowest, Millis(answer.at("ms").get<double>()));
  return slowest;
}

Bytes Peer::peak_bytes() {
  Bytes most;
  for (const auto& answer : ask("memory")) most = std::max(most, Bytes{answer.at("peak_bytes").get<int64_t>()});
  return most;
}

Json PeerRow::json() const {
  return {{"work", work},
          {"ours_ms", ours.count()},
          {"peer_ms", peer.count()},
          {"ratio_time", ours / peer},
          {"ours_mb", mib(ours_peak)},
          {"peer_mb", mib(peer_peak)},
          {"ratio_memory", mib(ours_peak) / mib(peer_peak)}};
}

}  // namespace shade::measure
