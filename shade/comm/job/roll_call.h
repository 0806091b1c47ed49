// Which ranks have written a value of a kind, as rank 0 asks: each key is asked for until it is there and read once.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <vector>

#include "shade/base/error.h"

namespace shade::comm {

class RollCall {
 public:
  using Take = std::function<void(int rank, const std::string& key)>;

  // `take` reads the value of a key that is there.
  RollCall(c10d::Store& store, std::string kind, int size, Take take)
      : store_(&store), kind_(std::move(kind)), size_(size), take_(std::move(take)) {}

  // In the order of ranks, as far as they have come; true: all have. W + 1 requests at most, one while none comes.
  bool complete() {
    for (; next_ < size_; ++next_) {
      const auto key = key_of(kind_, next_);
      if (!store_->check({key})) return false;
      take_(next_, key);
    }
    return true;
  }

  int next() const { return next_; }  // all before it have come

  std::vector<int> missing() {
    std::vector<int> out;
    for (int rank = next_; rank < size_; ++rank)
      if (!store_->check({key_of(kind_, rank)})) out.push_back(rank);
    return out;
  }

  static std::string key_of(const std::string& kind, int rank) { return text(kind, "/", rank); }

 private:
  c10d::Store* store_;
  std::string kind_;
  int size_;
  Take take_;
  int next_ = 0;
};

}  // namespace shade::comm
