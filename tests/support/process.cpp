#include "tests/support/process.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "shade/base/argv.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::test {

Running::Running(const std::vector<std::string>& command, const RunOptions& options) : options_(options) {
  std::array<int, 2> pipe{};
  SHADE_CHECK(::pipe(pipe.data()) == 0, "pipe: ", std::strerror(errno));
  auto words = command;
  const auto argv = argv_of(words);
  pid_ = ::fork();
  SHADE_CHECK(pid_ >= 0, "fork: ", std::strerror(errno));  // a signal to -1 would reach every process
  if (pid_ == 0) {
    ::setpgid(0, 0);
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT}) ::signal(signal, SIG_DFL);  // ignored in a shell's background
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    ::close(pipe[1]);
    for (const auto& [key, value] : options.environment) ::setenv(key.c_str(), value.c_str(), 1);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  from_ = pipe[0];
}

Running::~Running() {
  if (!gone()) {
    kill_group();
    ::waitpid(pid_, &status_, 0);
  }
  if (from_ >= 0) ::close(from_);
}

void Running::kill_group() const { ::kill(-pid_, SIGKILL); }
void Running::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

bool Running::gone() {
  reaped_ = reaped_ || ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return reaped_;
}

void Running::read_for(Seconds time) {
  if (from_ < 0) {
    std::this_thread::sleep_for(time);
    return;
  }
  pollfd polled{from_, POLLIN, 0};
  if (::poll(&polled, 1, static_cast<int>(Millis(time).count())) <= 0) return;
  std::array<char, 4096> buffer{};
  const auto count = ::read(from_, buffer.data(), buffer.size());
  if (count > 0)
    output_.append(buffer.data(), static_cast<size_t>(count));
  else
    ::close(std::exchange(from_, -1));
}

bool Running::says(const std::string& words, Seconds limit) {
  for (const auto until = Clock::now() + limit; Clock::now() < until && from_ >= 0;) {
    if (output_.find(words) != std::string::npos) return true;
    read_for(Seconds(0.05));
  }
  return output_.find(words) != std::string::npos;
}

// Others may hold its output open after it has ended, and it may close its output before it ends.
Outcome Running::finish() {
  const auto begin = Clock::now();
  while (!gone() || from_ >= 0) {
    read_for(Seconds(0.02));
    if (Clock::now() - begin > options_.limit) {
      kill_group();
      if (!reaped_) ::waitpid(pid_, &status_, 0);
      reaped_ = true;
      break;
    }
  }
  return {.status = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_),
          .output = output_,
          .took = Clock::now() - begin};
}

Outcome run(const std::vector<std::string>& command, const RunOptions& options) {
  return Running(command, options).finish();
}

namespace {

std::string required(const char* variable) {
  const char* value = std::getenv(variable);
  SHADE_REQUIRE(value != nullptr, variable, " is not set; run this test through ctest");
  return value;
}

}  // namespace

int new_port() {
  static std::atomic<int> used = 0;
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = 10000 + (::getpid() * 32 + used++) % 22000;
    const int socket = ::socket(AF_INET6, SOCK_STREAM, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    const bool free = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(socket);
    if (free) return port;
  }
  SHADE_CHECK(false, "no port is free");
}

std::string shade_binary() { return required("SHADE_BIN"); }
std::string source_root() { return required("SHADE_SOURCE"); }

std::vector<int> processes_with(const std::string& key, const std::string& value) {
  std::vector<int> found;
  const std::string wanted = key + "=" + value;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_integer(entry.path().filename().string());
    if (!pid) continue;
    std::ifstream in(entry.path() / "environ", std::ios::binary);
    const std::string environment((std::istreambuf_iterator<char>(in)), {});
    for (const auto& line : split(environment, '\0'))
      if (line == wanted) found.push_back(static_cast<int>(*pid));
  }
  return found;
}

Outcome run_shade(std::vector<std::string> arguments, const RunOptions& options) {
  arguments.insert(arguments.begin(), shade_binary());
  return run(arguments, options);
}

}  // namespace shade::test
