// What ranks write, passed on.
#pragma once

#include <cstdio>
#include <string>

namespace shade::comm {

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
  const std::string& last_words() const { return last_words_; }
  void pump();  // what is there now

 private:
  void emit(const std::string& line);
  void close();

  int from_;
  std::FILE* to_;
  std::string prefix_;
  std::string line_;
  std::string last_words_;
};

}  // namespace shade::comm
