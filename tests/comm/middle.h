// A man in the middle: all that two hosts send each other goes through here, and at one place it is changed.
//
//   host a  10.77.0.1 -- 10.77.0.2  middle, towards a    |    middle, towards b  10.77.0.1 -- 10.77.0.2  host b
//
// The other end of each host's cable has the address of the other host. The middle accepts every connection there and
// opens one to the host that was meant.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "shade/base/units.h"
#include "tests/comm/hosts.h"

namespace shade::test {

// What is done, once, to a message between ranks or to one of the handshake before.
enum class Trick {
  none,
  flip_payload,  // a bit of it
  flip_length,
  flip_number,
  flip_tag,
  drop,
  repeat,
  swap,  // with the next message
  truncate,
  renumber,  // the message before, under the number of this one
  reflect,   // what the receiver has sent itself, under the same number
  cross,     // another connection's message of this number and length
  close,     // the connection
  flip_hello,
  flip_answer,
  flip_confirmation,
  flip_welcome,
};

struct Disturbance {
  Trick trick = Trick::none;
  bool to_server = true;  // of messages: from the rank that has connected to the one that has listened
  uint64_t number = 0;    // of messages: the first one with this number or a later one
  size_t at_least = 1;    // bytes of payload
  size_t offset = 0;      // of handshakes: the byte whose lowest bit is changed
};

class Middle {
 public:
  // Ports of data from `first` to `last`; the store's is passed on as it is. `sealed`: messages are.
  struct Options {
    int first = 40000, last = 40099, store = 29400;
    bool sealed = true;
    Disturbance disturbance;
  };
  Middle(const Host& a, const Host& b, const Options& options);
  ~Middle();
  Middle(const Middle&) = delete;
  Middle& operator=(const Middle&) = delete;

  void stop();

  // After stop().
  std::optional<Clock::time_point> disturbed() const;  // when
  size_t messages() const;                             // that were passed on
  bool understood() const;  // false: what went through is not the protocol that is known here

 private:
  class Relay;
  Host towards_a_, towards_b_;
  std::unique_ptr<Relay> relay_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace shade::test
