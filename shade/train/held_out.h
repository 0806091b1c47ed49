// Which records are trained on, and which are held out for evaluation.
//
//   by position   every k-th record, so that a sorted data set is seen whole by both. One record more moves others from
//                 one use to the other, so private runs must not use it.
//   behind        the last ones: windows of packed texts, whose documents were divided before (train/records.h).
//   by content    a record is held out if the hash of its content is below rate * 2^64: no other record decides. The
//                 number held out is approximate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shade/data/dataset.h"

namespace shade::train {

class HeldOut {
 public:
  // Throw UsageError: no records, or more than half of them asked for.
  static HeldOut by_position(int64_t records, int64_t wanted);
  static HeldOut by_content(const data::Dataset& dataset, int64_t wanted);  // reads all records unless wanted is 0
  // The last ones. `how` is added to describe().
  static HeldOut behind(int64_t records, int64_t held_out, std::string how);

  // wanted / records, rounded to a power of 2^(1/8): a public grid that one record more or less rarely steps over.
  static double rate(int64_t records, int64_t wanted);

  int64_t records() const { return records_; }
  // Another record never moves this one from one use to the other: what a private job needs.
  bool each_alone() const { return by_content_ || evaluation_.empty(); }
  int64_t training() const { return records_ - evaluation(); }
  int64_t evaluation() const { return static_cast<int64_t>(evaluation_.size()); }
  int64_t training_record(int64_t i) const;
  const std::vector<int64_t>& evaluation_records() const { return evaluation_; }  // ascending
  std::string describe() const;

 private:
  HeldOut(int64_t records, int64_t wanted);

  int64_t records_;
  std::vector<int64_t> evaluation_;
  bool by_content_ = false;
  std::string how_;  // for describe()
};

}  // namespace shade::train
