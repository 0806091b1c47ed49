// SIGTERM and SIGINT as a request to stop.
//
// By default such a signal ends the process at once, which is right wherever nothing would be lost. While a StopSignals
// lives, the first one is recorded instead, for the working thread to poll with asked(); a second one ends the
// process at once. The same request may come twice, from a terminal and from a launcher that passes it on: what follows
// within half a second is no second one. If the reader of the output is gone, as after
// the kill of a notebook's kernel, the process must still answer: broken pipes are ignored from then on.
#pragma once

#include <array>
#include <cerrno>
#include <functional>
#include <thread>

namespace shade {

class StopSignals {
 public:
  // `answer` is called once, on a separate thread, soon after the first signal. One StopSignals at a time.
  explicit StopSignals(std::function<void()> answer);
  ~StopSignals();  // signals do again what they did before
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool asked();  // since the last one was made, if only by a signal that came just before its end

 private:
  std::array<void (*)(int), 2> before_{};
  std::array<int, 2> pipe_{};  // from the handler to the thread
  std::thread answerer_;
};

// Writing to a pipe or socket whose other end has gone is an error of the operation from now on, and not the end of the
// process. A handler of SIGPIPE that the program has set itself is left alone.
void ignore_broken_pipes();

// System calls that a signal interrupted are made again: no error of the file.

template <class Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace shade
