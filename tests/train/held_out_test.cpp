// Which records are held out. In private runs one record more must not move any other: D + x trains on the records of
// D and possibly x.
#include "shade/train/feed/held_out.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "shade/models/registry.h"
#include "shade/train/feed/made_up_data.h"
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
    expect_one_use_each(HeldOut::by_content(Contents(contents), *rc::gen::element(0.0, 0.1, 0.5)), records);
  }));
  EXPECT_EQ(HeldOut::by_position(10, 3).evaluation_records(), (std::vector<int64_t>{2, 5, 8}));
}

TEST(HeldOut, ByContentApproximatelyTheShareIsHeldOut) {
  const auto model = models::make_model("llama-nano", {}, {});
  const auto split = HeldOut::by_content(MadeUpData(*model, 100'000, 8, 1), 0.1);
  EXPECT_NEAR(static_cast<double>(split.evaluation()), 10'000, 500);  // 5 deviations
  EXPECT_TRUE(split.describe().ends_with("held out by content (eval_rate 0.1)")) << split.describe();
}

TEST(HeldOut, NoneAndAllHeldOut) {
  const auto none = HeldOut::by_content(Contents({~uint64_t{0}, ~uint64_t{0}}), 0.5);
  EXPECT_EQ(none.describe(), "2 for training, none held out by content (eval_rate 0.5)");
  EXPECT_EQ(HeldOut::by_content(Contents({0, 0}), 0).describe(), "2 for training, none held out");
  const auto all = test::fault([] { HeldOut::by_content(Contents({0, 0}), 0.5); });
  EXPECT_NE(all.find("none is left for training; set --eval-rate 0"), std::string::npos) << all;
  for (const double rate : {0.51, -0.1, 8.0, std::nan("")}) {
    const auto said = test::fault([&] { HeldOut::by_content(Contents({0, 0}), rate); });
    EXPECT_NE(said.find("expected 0 to 0.5"), std::string::npos) << said;
  }
  EXPECT_EQ(test::fault([] { HeldOut::by_position(3, 2); }),
            "eval_records is 2 of 3 records; expected at most half of them");
}

// However many there are: at the first two numbers a share that was derived from them, rounded to a power of 2^(1/8),
// changed with the next record, and a tenth of those held out moved.
TEST(HeldOut, ByContentTheNumberOfRecordsMovesNone) {
  std::mt19937_64 draw(3);
  std::vector<uint64_t> all(5910);
  for (auto& content : all) content = draw();
  const auto held_out = [&](int64_t records, double rate) {
    return HeldOut::by_content(Contents({all.begin(), all.begin() + records}), rate).evaluation_records();
  };
  for (const auto& [records, wanted] :
       {std::pair<int64_t, double>{5907, 2000}, {306, 20}, {20, 2}, {128, 8}, {255, 64}}) {
    const auto rate = wanted / static_cast<double>(records);
    const auto without = held_out(records, rate);
    auto with = held_out(records + 1, rate);
    std::erase(with, records);
    EXPECT_EQ(with, without) << records;
    EXPECT_NEAR(static_cast<double>(without.size()), wanted, 5 * std::sqrt(wanted)) << records;
  }
}

// The ids that are trained on, in any order.
std::multiset<std::vector<int64_t>> trained(const std::vector<std::string>& lines, double rate, data::Task task) {
  const data::Folder folder;
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  folder.put("a.jsonl", all);
  auto config = folder.config();
  config.classes = {"even", "odd"};
  const auto texts = data::open_dataset(config, 12, task);
  const auto split = HeldOut::by_content(*texts, rate);
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
  for (int set = 0; set < 50; ++set) {
    const auto task = set % 2 == 0 ? data::Task::lm : data::Task::classify;
    std::vector<std::string> lines;
    for (auto records = 20 + draw() % 40; records > 0; --records) lines.push_back(record());
    const auto records = std::ssize(lines);
    const auto rate = static_cast<double>(2 + draw() % 8) / static_cast<double>(records);
    const auto without = trained(lines, rate, task);
    held_out += records - std::ssize(without);
    const auto x = record();
    for (const auto at : {int64_t{0}, records / 2, records}) {
      auto more = lines;
      more.insert(more.begin() + at, x);
      const auto with = trained(more, rate, task);
      ASSERT_TRUE(std::includes(with.begin(), with.end(), without.begin(), without.end())) << set << " at " << at;
      ASSERT_LE(with.size(), without.size() + 1) << set << " at " << at;
    }
  }
  EXPECT_GT(held_out, 100);
}

}  // namespace
}  // namespace shade::train
