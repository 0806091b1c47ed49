// Running a program the way a user would, and looking at what it leaves behind.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/units.h"

namespace shade::test {

struct Outcome {
  int status = 0;      // exit status, or 128 + signal
  std::string output;  // standard output and error, interleaved
  Seconds took{0};
};

struct RunOptions {
  std::map<std::string, std::string> environment;
  Seconds limit{60};  // after that it is killed, with status 128 + 9
};

Outcome run(const std::vector<std::string>& command, const RunOptions& options = {});

// A program that is looked at, and sent signals, while it runs. It is killed with all of its group if the test forgets
// it.
class Running {
 public:
  explicit Running(const std::vector<std::string>& command, const RunOptions& options = {});
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // Until its output has the words; false: it ended, or the time was over.
  bool says(const std::string& words, Seconds limit = Seconds(30));
  void signal(int number) const;  // to the process itself, not to its group
  // Until it ends; `took` counts from this call. The limit is that of the options, from now on.
  Outcome finish();
  bool gone();
  const std::string& output() const { return output_; }

 private:
  void read_for(Seconds time);
  void kill_group() const;

  RunOptions options_;
  int pid_ = -1;
  int from_ = -1;  // its output; -1: closed
  std::string output_;
  bool reaped_ = false;
  int status_ = 0;  // waitpid's
};

// A port that nothing listens on, below those that the kernel gives to connections: what it gives away meanwhile would
// be taken.
int new_port();

std::string shade_binary();  // the program under test
Outcome run_shade(std::vector<std::string> arguments, const RunOptions& options = {});
std::string source_root();

// Processes whose environment contains KEY=VALUE.
std::vector<int> processes_with(const std::string& key, const std::string& value);

}  // namespace shade::test
