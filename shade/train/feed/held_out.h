// Which records are trained on, and which are held out for evaluation.
//
//   by position   every k-th record, so that a sorted data set is seen whole by both. One additional record moves
//                 others from one use to the other, so private runs must not use it.
//   behind        the last ones: windows of packed texts, whose documents were divided before (train/feed/records.h).
//   by content    a record is held out if the hash of its content is below rate * 2^64: no other record decides. The
//                 number held out is approximate.
//   by user       a user is held out with all records if the hash of the user's name is below rate * 2^64: no other
//                 user decides. The number of users held out is approximate.
//
// A rate is set, never derived from the data: one that followed from the number of records would let one additional
// record move others. Where it does follow from a number (about_users), private jobs refuse the split.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shade/accounting/event.h"
#include "shade/data/dataset.h"

namespace shade::train {

// A split of a data set's records into those for training and those for evaluation.
class HeldOut {
 public:
  // Throw UsageError: no records, more than half of them asked for, or none left for training.
  static HeldOut by_position(int64_t records, int64_t wanted);
  static HeldOut by_content(const data::Dataset& dataset, double rate);  // reads all records unless the rate is 0
  static HeldOut by_user(const data::Dataset& dataset, double rate);     // reads all records' users
  // By user, about this many: at the rate wanted / users, rounded to a power of 2^(1/8).
  static HeldOut about_users(const data::Dataset& dataset, int64_t wanted);
  // The last ones. `how` is added to describe().
  static HeldOut behind(int64_t records, int64_t held_out, std::string how);

  int64_t records() const { return records_; }  // of both uses
  // Another record, or another user, never moves this one from one use to the other: what a private job needs.
  bool each_alone() const { return each_alone_; }
  int64_t training() const { return records_ - evaluation(); }                     // number of records trained on
  int64_t evaluation() const { return static_cast<int64_t>(evaluation_.size()); }  // number of records held out
  // Units of privacy that are trained on: records or windows, or users, for which the split must be by user.
  int64_t training(privacy::PrivacyUnit unit) const;
  int64_t training_record(int64_t i) const;  // the i-th record that is trained on, from 0, ascending
  // Those that are trained on, if the split is by user; null: it is not.
  const data::Users* users() const { return users_.get(); }
  const std::vector<int64_t>& evaluation_records() const { return evaluation_; }  // ascending
  std::string describe() const;  // "900 for training, 100 held out by content (eval_rate 0.1)"

 private:
  explicit HeldOut(int64_t records);

  int64_t records_;
  std::vector<int64_t> evaluation_;
  bool each_alone_ = false;
  std::shared_ptr<const data::Users> users_;
  int64_t held_out_users_ = 0;
  std::string how_;  // for describe()
};

}  // namespace shade::train
