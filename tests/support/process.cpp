#include "tests/support/process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "shade/base/argv.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::test {

Outcome run(const std::vector<std::string>& command, const RunOptions& options) {
  std::array<int, 2> pipe{};
  SHADE_CHECK(::pipe(pipe.data()) == 0, "pipe: ", std::strerror(errno));
  auto words = command;
  const auto argv = argv_of(words);
  const auto begin = Clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    ::dup2(pipe[1], STDOUT_FILENO);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    ::close(pipe[1]);
    for (const auto& [key, value] : options.environment) ::setenv(key.c_str(), value.c_str(), 1);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pipe[1]);
  Outcome outcome;
  std::array<char, 4096> buffer{};
  while (true) {
    pollfd polled{pipe[0], POLLIN, 0};
    if (::poll(&polled, 1, 100) > 0) {
      const auto count = ::read(pipe[0], buffer.data(), buffer.size());
      if (count <= 0) break;
      outcome.output.append(buffer.data(), static_cast<size_t>(count));
    }
    if (Clock::now() - begin > options.limit) {
      ::kill(-pid, SIGKILL);
      break;
    }
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.took = Clock::now() - begin;
  return outcome;
}

namespace {

std::string required(const char* variable) {
  const char* value = std::getenv(variable);
  SHADE_REQUIRE(value != nullptr, variable, " is not set; run this test through ctest");
  return value;
}

}  // namespace

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

}  // namespace shade::test
