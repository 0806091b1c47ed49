// Vector clocks: which commands of which streams are known to be finished by the time something happens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shade::test::device {

// One command of a stream: the time-th. Streams are numbered over all devices (streams.h).
struct Moment {
  size_t stream = 0;
  uint64_t time = 0;
};

class Clock {
 public:
  bool covers(const Moment& moment) const { return at(moment.stream) >= moment.time; }

  bool covers(const Clock& other) const {
    for (size_t stream = 0; stream < other.times_.size(); ++stream)
      if (at(stream) < other.times_[stream]) return false;
    return true;
  }

  Moment tick(size_t stream) {
    if (stream >= times_.size()) times_.resize(stream + 1);
    return {stream, ++times_[stream]};
  }

  void join(const Clock& other) {
    if (times_.size() < other.times_.size()) times_.resize(other.times_.size());
    for (size_t stream = 0; stream < other.times_.size(); ++stream)
      times_[stream] = std::max(times_[stream], other.times_[stream]);
  }

 private:
  uint64_t at(size_t stream) const { return stream < times_.size() ? times_[stream] : 0; }

  std::vector<uint64_t> times_;
};

}  // namespace shade::test::device
