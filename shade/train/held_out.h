// Records for training and records for evaluation, told apart by number alone.
#pragma once

#include <cstdint>
#include <vector>

#include "shade/base/error.h"

namespace shade::train {

// Of `records` in all, `held_out` are evaluated and never trained on: every k-th, so that a sorted data set is seen
// whole by both. Neighbouring data sets differ in one record; numbers of the others stay.
class HeldOut {
 public:
  HeldOut(int64_t records, int64_t held_out) : records_(records), held_out_(held_out) {
    SHADE_REQUIRE(records > 0, "there are no records to train on");
    SHADE_REQUIRE(held_out * 2 <= records, "eval_records is ", held_out, " of ", records,
                  " records; expected at most half of them");
    every_ = held_out > 0 ? records / held_out : 0;
  }

  int64_t training() const { return records_ - held_out_; }
  int64_t evaluation() const { return held_out_; }

  int64_t training_record(int64_t i) const {
    if (held_out_ == 0 || i >= held_out_ * (every_ - 1)) return i + held_out_;
    return i + i / (every_ - 1);
  }
  int64_t evaluation_record(int64_t i) const { return i * every_ + every_ - 1; }
  std::vector<int64_t> evaluation_records() const {
    std::vector<int64_t> out;
    for (int64_t i = 0; i < held_out_; ++i) out.push_back(evaluation_record(i));
    return out;
  }

 private:
  int64_t records_, held_out_, every_ = 0;
};

}  // namespace shade::train
