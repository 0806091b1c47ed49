// Which ranks have written a value of a kind, as rank 0 asks: each key is asked for until it has one, which is read
// once.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/comm/errors.h"
#include "shade/comm/store.h"

namespace shade::comm {

class RollCall {
 public:
  // A value that doesn't open is none: that its rank has another secret, or is none of ours, is for the caller to say.
  using Take = std::function<void(int rank, const std::optional<std::string>& value)>;

  RollCall(c10d::Store& store, std::string kind, int size, Take take)
      : store_(&store), kind_(std::move(kind)), size_(size), take_(std::move(take)) {}

  static std::string key_of(const std::string& kind, int rank) { return text(kind, "/", rank); }

  // In the order of ranks, as far as they have come; true: all have. Three requests for every kTogether of them, two
  // while none comes.
  bool complete() {
    while (next_ < size_) {
      const int end = std::min(next_ + kTogether, size_);
      if (all_came(end)) {
        next_ = end;
      } else {
        if (!came(next_)) return false;
        ++next_;
      }
    }
    return true;
  }

  int next() const { return next_; }  // all before it have come

  std::vector<int> missing() {
    std::vector<int> out;
    for (int rank = next_; rank < size_; ++rank)
      if (!came(rank)) out.push_back(rank);
    return out;
  }

 private:
  bool all_came(int end) {
    std::vector<std::string> keys;
    for (int rank = next_; rank < end; ++rank) keys.push_back(key_of(kind_, rank));
    try {
      const auto values = peek_all(*store_, keys);
      for (size_t i = 0; values && i < keys.size(); ++i) take_(next_ + static_cast<int>(i), (*values)[i]);
      return values.has_value();
    } catch (const SealBroken&) {
      return false;  // which of them, is seen one by one
    }
  }

  bool came(int rank) {
    try {
      const auto value = peek(*store_, key_of(kind_, rank));
      if (value) take_(rank, value);
      return value.has_value();
    } catch (const SealBroken&) {
      take_(rank, std::nullopt);
      return true;
    }
  }

  c10d::Store* store_;
  std::string kind_;
  int size_;
  Take take_;
  int next_ = 0;
};

}  // namespace shade::comm
