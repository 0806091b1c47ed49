#include "shade/train/feed/held_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shade/base/error.h"
#include "shade/base/terminal.h"

namespace shade::train {
namespace {

// Hashes below this are held out. At most 2^63, because the rate is at most a half.
uint64_t limit_of(double rate) {
  SHADE_REQUIRE(rate >= 0 && rate <= 0.5, "the share of held-out records is ", rate, "; expected 0 to 0.5");
  return static_cast<uint64_t>(std::ldexp(rate, 64));
}

std::vector<int64_t> all_records(const data::Dataset& dataset) {
  std::vector<int64_t> out(static_cast<size_t>(dataset.size()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

}  // namespace

HeldOut::HeldOut(int64_t records) : records_(records) {
  SHADE_REQUIRE(records > 0, "there are no records to train on");
}

HeldOut HeldOut::by_position(int64_t records, int64_t wanted) {
  HeldOut out(records);
  SHADE_REQUIRE(wanted * 2 <= records, "eval_records is ", wanted, " of ", records,
                " records; expected at most half of them");
  const auto every = wanted > 0 ? records / wanted : 0;
  for (int64_t i = 1; i <= wanted; ++i) out.evaluation_.push_back(i * every - 1);
  out.each_alone_ = wanted == 0;
  return out;
}

HeldOut HeldOut::behind(int64_t records, int64_t held_out, std::string how) {
  HeldOut out(records);
  for (auto record = records - held_out; record < records; ++record) out.evaluation_.push_back(record);
  out.each_alone_ = held_out == 0;
  out.how_ = std::move(how);
  return out;
}

HeldOut HeldOut::by_content(const data::Dataset& dataset, double rate) {
  HeldOut out(dataset.size());
  out.each_alone_ = true;
  const auto below = limit_of(rate);
  if (below == 0) return out;
  Progress progress("choosing held-out records", out.records_);
  for (int64_t record = 0; record < out.records_; ++record) {
    if (dataset.content_of(record) < below) out.evaluation_.push_back(record);
    progress.advance();
  }
  SHADE_REQUIRE(out.training() > 0, "all of the ", out.records_,
                " records are held out by their content, and none is left for training; set --eval-rate 0 and "
                "evaluate on a --test-folder");
  out.how_ = text(" by content (eval_rate ", rate, ")");
  return out;
}

HeldOut HeldOut::by_user(const data::Dataset& dataset, double rate) {
  HeldOut out(dataset.size());
  out.each_alone_ = true;
  auto users = std::make_shared<const data::Users>(dataset, all_records(dataset));
  const auto all = users->size();
  const auto below = limit_of(rate);
  int64_t held_out = 0;
  for (int64_t user = 0; user < all && users->id(user)[0] < below; ++user, ++held_out)
    out.evaluation_.insert(out.evaluation_.end(), users->records_of(user).begin(), users->records_of(user).end());
  std::sort(out.evaluation_.begin(), out.evaluation_.end());
  SHADE_REQUIRE(held_out < all, "all of the ", all,
                " users are held out by their names, and none is left for training; hold out none (--eval-rate 0, "
                "--eval-records 0) and evaluate on a --test-folder");
  if (held_out > 0) {
    std::vector<int64_t> training(static_cast<size_t>(out.training()));
    for (int64_t i = 0; i < out.training(); ++i) training[static_cast<size_t>(i)] = out.training_record(i);
    users = std::make_shared<const data::Users>(dataset, training);
  }
  out.users_ = std::move(users);
  out.held_out_users_ = held_out;
  if (rate > 0) out.how_ = text(" by name (eval_rate ", rate, ")");
  return out;
}

HeldOut HeldOut::about_users(const data::Dataset& dataset, int64_t wanted) {
  const auto users = data::Users(dataset, all_records(dataset)).size();
  SHADE_REQUIRE(wanted * 2 <= users, "eval_records is ", wanted, " of ", users,
                " users, whole users being held out; expected at most half of them");
  const auto share = static_cast<double>(wanted) / static_cast<double>(users);
  auto out = by_user(dataset, wanted == 0 ? 0 : std::exp2(std::round(8 * std::log2(share)) / 8));
  out.each_alone_ = wanted == 0;
  if (wanted > 0) out.how_ = text(" (eval_records ", wanted, " is an approximate number of users)");
  return out;
}

int64_t HeldOut::training(privacy::PrivacyUnit unit) const {
  if (unit != privacy::PrivacyUnit::user) return training();
  SHADE_REQUIRE(users_,
                "a user is to be protected, and the split doesn't say whose records are whose; make it by user "
                "(HeldOut::by_user)");
  return users_->size();
}

int64_t HeldOut::training_record(int64_t i) const {
  // The k-th held-out record has its number less k training records before it, which never falls with k.
  const auto passed = std::partition_point(evaluation_.begin(), evaluation_.end(), [&](const int64_t& record) {
    return record - (&record - evaluation_.data()) <= i;
  });
  return i + (passed - evaluation_.begin());
}

std::string HeldOut::describe() const {
  const auto of = [&](int64_t users) {
    return users_ ? text(" records of ", users, users == 1 ? " user" : " users") : std::string();
  };
  const auto held_out = evaluation() == 0 ? "none" : text(evaluation(), of(held_out_users_));
  return text(training(), of(users_ ? users_->size() : 0), " for training, ", held_out, " held out", how_);
}

}  // namespace shade::train
