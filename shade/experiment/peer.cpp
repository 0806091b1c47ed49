#include "shade/experiment/peer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "shade/base/error.h"

namespace shade::experiment {
namespace {

// Where bench/peers and the peers' Python are: beside the sources this program was built from, or where SHADE_ROOT
// says.
std::filesystem::path root() {
  const char* given = std::getenv("SHADE_ROOT");
  return given != nullptr ? given : SHADE_SOURCE_ROOT;
}

}  // namespace

Peer::Peer(const std::vector<std::string>& arguments) {
  const auto python = (root() / ".deps/peers/bin/python").string();
  const auto script = (root() / "bench/peers/step_server.py").string();
  SHADE_REQUIRE(std::filesystem::exists(python) && std::filesystem::exists(script),
                "the PyTorch peers are not installed (no ", python, "); run tools/bootstrap peers, or set SHADE_ROOT");
  std::vector<std::string> words{python, script};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::array<int, 2> in{}, out{};
  SHADE_CHECK(::pipe(in.data()) == 0 && ::pipe(out.data()) == 0, "pipe: ", std::strerror(errno));
  pid_ = ::fork();
  SHADE_CHECK(pid_ >= 0, "fork: ", std::strerror(errno));
  if (pid_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    for (const int descriptor : {in[0], in[1], out[0], out[1]}) ::close(descriptor);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  to_ = ::fdopen(in[1], "w");
  from_ = ::fdopen(out[0], "r");
  (void)answer();  // ready
}

Peer::~Peer() {
  std::fclose(to_);  // the end of its input ends it
  std::fclose(from_);
  ::waitpid(pid_, nullptr, 0);
}

Json Peer::answer() {
  char* line = nullptr;
  size_t capacity = 0;
  const auto length = ::getline(&line, &capacity, from_);
  const std::string text_line(line, length > 0 ? static_cast<size_t>(length) : 0);
  std::free(line);
  if (length <= 0) throw Error("the PyTorch peer ended without an answer; its message is above");
  return Json::parse(text_line);
}

Json Peer::ask(const std::string& line) {
  std::fprintf(to_, "%s\n", line.c_str());
  std::fflush(to_);
  return answer();
}

double Peer::run_ms() { return ask("run").at("ms"); }
Bytes Peer::peak() { return {static_cast<int64_t>(ask("memory").at("peak_mb").get<double>() * 1024 * 1024)}; }

}  // namespace shade::experiment
