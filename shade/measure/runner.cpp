#include "shade/measure/runner.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "shade/base/argv.h"
#include "shade/base/error.h"
#include "shade/base/explain.h"

namespace shade::measure {
namespace {

// In the child, between fork and exec: system calls only.
[[noreturn]] void become(char* const* words, const char* log, int64_t memory) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // its own children end with it the same way
  const int file = ::open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
  }
  if (memory > 0) {
    const rlimit limit{static_cast<rlim_t>(memory), static_cast<rlim_t>(memory)};
    ::setrlimit(RLIMIT_DATA, &limit);
  }
  ::execv(words[0], words);
  ::_exit(127);
}

// The first line of a log that says what went wrong.
std::string complaint(const std::filesystem::path& log) {
  std::ifstream in(log);
  std::string line, last;
  while (std::getline(in, line)) {
    if (line.find("shade bench: ") != std::string::npos || line.find("failed first") != std::string::npos) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

IsolatedOutcome run_isolated(const IsolatedRun& run) {
  auto words = run.command;
  const auto arguments = argv_of(words);
  const auto log = run.log.string();
  const auto pid = ::fork();
  if (pid < 0) throw Error(cannot_start(run.command.front(), errno));
  if (pid == 0) become(arguments.data(), log.c_str(), run.memory.count);
  const auto begin = Clock::now();
  const LoadMeter meter;
  rusage usage{};  // with that of its children
  int status = 0;
  bool late = false;
  while (::wait4(pid, &status, WNOHANG, &usage) == 0) {
    if (!late && Clock::now() - begin > run.limit) {
      late = true;
      ::kill(-pid, SIGKILL);
    }
    std::this_thread::sleep_for(Seconds(0.01));
  }
  ::kill(-pid, SIGKILL);  // processes left in its group
  const auto seconds = [](const timeval& time) {
    return Seconds(static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6);
  };
  IsolatedOutcome out{.ok = !late && WIFEXITED(status) && WEXITSTATUS(status) == 0,
                      .reason = {},
                      .out_of_memory = false,
                      .load = meter.end(seconds(usage.ru_utime) + seconds(usage.ru_stime))};
  if (out.ok) return out;
  const auto said = complaint(run.log);
  out.out_of_memory = said.find("allocate memory") != std::string::npos ||
                      said.find("bad_alloc") != std::string::npos ||
                      said.find("the model states need") != std::string::npos ||
                      (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !late);
  if (late)
    out.reason = text("took longer than ", to_string(run.limit));
  else if (WIFSIGNALED(status))
    out.reason = text("ended by signal ", WTERMSIG(status), said.empty() ? "" : ": " + said);
  else
    out.reason = said.empty() ? text("exit status ", WEXITSTATUS(status)) : said;
  if (out.out_of_memory && !said.starts_with("out of memory")) out.reason = "out of memory: " + out.reason;
  return out;
}

}  // namespace shade::measure
