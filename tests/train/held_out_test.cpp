// Which records are held out. In private runs one record more must not move any other: D + x trains on the records of
// D and possibly x.
#include "shade/train/held_out.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "shade/models/registry.h"
#include "shade/train/made_up_data.h"
#include "tests/data/folder.h"
#include "tests/support/fault.h"

namespace shade::train {
namespace {

// Records that are their contents.
class Contents final : public data::Dataset {
 public:
  explicit Contents(std::vector<uint64_t> contents) : contents_(std::move(contents)) {}
  int64_t size() const override { return std::ssize(contents_); }
  nn::Batch batch(std::span<const int64_t>) const override { return {}; }
  std::string describe() const override { return "contents"; }
  std::string fingerprint() const override { return "contents"; }
  uint64_t content_of(int64_t record) const override { return contents_.at(static_cast<size_t>(record)); }

 private:
  std::vector<uint64_t> contents_;
};

void expect_one_use_each(const HeldOut& split, int64_t records) {
  std::vector<int64_t> seen = split.evaluation_records();
  RC_ASSERT(std::is_sorted(seen.begin(), seen.end()));
  for (int64_t i = 0; i < split.training(); ++i) {
    seen.push_back(split.training_record(i));
    RC_ASSERT(i == 0 || split.training_record(i - 1) < seen.back());
  }
  RC_ASSERT(std::ssize(seen) == records);
  RC_ASSERT(std::set<int64_t>(seen.begin(), seen.end()).size() == seen.size());
  RC_ASSERT(*std::min_element(seen.begin(), seen.end()) == 0);
  RC_ASSERT(*std::max_element(seen.begin(), seen.end()) == records - 1);
}

TEST(HeldOut, EveryRecordIsForOneUse) {
  EXPECT_TRUE(rc::check([] {
    const auto records = *rc::gen::inRange<int64_t>(1, 300);
    const auto wanted = *rc::gen::inRange<int64_t>(0, records / 2 + 1);
    const auto split = HeldOut::by_position(records, wanted);
    RC_ASSERT(split.evaluation() == wanted);
    expect_one_use_each(split, records);
    std::vector<uint64_t> contents;
    std::mt19937_64 draw(static_cast<uint64_t>(records * 1000 + wanted));
    for (int64_t i = 0; i < records; ++i) contents.push_back(draw() | 1);
    contents.back() = ~uint64_t{0};  // one for training
    expect_one_use_each(HeldOut::by_content(Contents(contents), wanted), records);
  }));
  EXPECT_EQ(HeldOut::by_position(10, 3).evaluation_records(), (std::vector<int64_t>{2, 5, 8}));
}

TEST(HeldOut, ByContentApproximatelyAsManyAreHeldOut) {
  EXPECT_EQ(HeldOut::rate(100, 0), 0);
  EXPECT_EQ(HeldOut::rate(4096, 1024), 0.25);
  int64_t steps = 0;
  for (int64_t records = 1000; records < 2000; ++records) {
    const auto rate = HeldOut::rate(records, 100);
    EXPECT_LE(std::abs(std::log2(rate * static_cast<double>(records) / 100)), 1.0 / 16 + 1e-12);
    steps += rate != HeldOut::rate(records + 1, 100) ? 1 : 0;
  }
  EXPECT_EQ(steps, 8) << "a factor of 2 in the number of records";

  const auto model = models::make_model("llama-nano", {}, {});
  const auto split = HeldOut::by_content(MadeUpData(*model, 100'000, 8, 1), 10'000);
  EXPECT_NEAR(static_cast<double>(split.evaluation()), 1e5 * HeldOut::rate(100'000, 10'000), 500);  // 5 deviations
  EXPECT_TRUE(split.describe().ends_with("held out by content (eval_records 10000 is approximate in a private run)"));
}

TEST(HeldOut, NoneAndAllHeldOut) {
  const auto none = HeldOut::by_content(Contents({~uint64_t{0}, ~uint64_t{0}}), 1);
  EXPECT_EQ(none.describe(),
            "2 for training, none held out by content (eval_records 1 is approximate in a private run)");
  EXPECT_EQ(HeldOut::by_content(Contents({0, 0}), 0).describe(), "2 for training, none held out");
  const auto all = test::fault([] { HeldOut::by_content(Contents({0, 0}), 1); });
  EXPECT_NE(all.find("none is left for training; set --eval-records 0"), std::string::npos) << all;
  const auto many = test::fault([] { HeldOut::by_content(Contents({0, 0}), 2); });
  EXPECT_EQ(many, "eval_records is 2 of 2 records; expected at most half of them");
}

// The ids that are trained on, in any order.
std::multiset<std::vector<int64_t>> trained(const std::vector<std::string>& lines, int64_t wanted, data::Task task) {
  const data::Folder folder;
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  folder.put("a.jsonl", all);
  auto config = folder.config();
  config.classes = {"even", "odd"};
  const auto texts = data::open_dataset(config, 12, task);
  const auto split = HeldOut::by_content(*texts, wanted);
  std::multiset<std::vector<int64_t>> out;
  for (int64_t i = 0; i < split.training(); ++i) {
    const auto batch = texts->batch(std::array{split.training_record(i)});
    auto ids = data::row(batch.ids_BT, 0);
    ids.push_back(task == data::Task::classify ? batch.labels.item<int64_t>() : 0);
    out.insert(ids);
  }
  return out;
}

TEST(HeldOut, ByContentOneRecordMoreMovesNoOther) {
  std::mt19937_64 draw(7);
  const auto record = [&] {
    return text("{\"text\": \"", draw() % 1000, "\", \"label\": \"", draw() % 2 == 0 ? "even" : "odd", "\"}");
  };
  int64_t held_out = 0;
  for (int set = 0; set < 50;) {
    const auto task = set % 2 == 0 ? data::Task::lm : data::Task::classify;
    std::vector<std::string> lines;
    for (auto records = 20 + draw() % 40; records > 0; --records) lines.push_back(record());
    const auto records = std::ssize(lines);
    const auto wanted = static_cast<int64_t>(2 + draw() % 8);
    if (HeldOut::rate(records, wanted) != HeldOut::rate(records + 1, wanted)) continue;
    ++set;
    const auto without = trained(lines, wanted, task);
    held_out += records - std::ssize(without);
    const auto x = record();
    for (const auto at : {int64_t{0}, records / 2, records}) {
      auto more = lines;
      more.insert(more.begin() + at, x);
      const auto with = trained(more, wanted, task);
      ASSERT_TRUE(std::includes(with.begin(), with.end(), without.begin(), without.end())) << set << " at " << at;
      ASSERT_LE(with.size(), without.size() + 1) << set << " at " << at;
    }
  }
  EXPECT_GT(held_out, 100);
}

}  // namespace
}  // namespace shade::train
