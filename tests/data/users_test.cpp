// Whose records are whose, and which of them a user brings to a step.
#include "shade/data/users.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "shade/data/dataset.h"
#include "shade/data/token_store.h"
#include "shade/io/errors.h"
#include "tests/data/folder.h"
#include "tests/support/fault.h"

namespace shade::data {
namespace {

// Records that name their users.
class Named final : public Dataset {
 public:
  explicit Named(std::vector<std::string> users) : users_(std::move(users)) {}
  int64_t size() const override { return std::ssize(users_); }
  nn::Batch batch(std::span<const int64_t>) const override { return {}; }
  std::string describe() const override { return "named"; }
  std::string fingerprint() const override { return "named"; }
  uint64_t content_of(int64_t) const override { return 0; }
  std::optional<UserId> user_of(int64_t record) const override {
    const auto& name = users_.at(static_cast<size_t>(record));
    return name.empty() ? std::nullopt : std::optional(user_id(name));
  }

 private:
  std::vector<std::string> users_;
};

Users all_of(const Named& data) {
  std::vector<int64_t> records(static_cast<size_t>(data.size()));
  std::iota(records.begin(), records.end(), 0);
  return {data, records};
}

int64_t number_of(const Users& users, const std::string& name) {
  for (int64_t user = 0; user < users.size(); ++user)
    if (users.id(user) == user_id(name)) return user;
  return -1;
}

SampleKey key_of(uint8_t byte) {
  SampleKey key;
  key.fill(byte);
  return key;
}

TEST(Users, HaveTheirRecords) {
  const auto users = all_of(Named({"ann", "bob", "ann", "cid", "bob", "ann"}));
  ASSERT_EQ(users.size(), 3);
  const auto records = [&](const char* name) {
    const auto mine = users.records_of(number_of(users, name));
    return std::vector(mine.begin(), mine.end());
  };
  EXPECT_EQ(records("ann"), (std::vector<int64_t>{0, 2, 5}));
  EXPECT_EQ(records("bob"), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(records("cid"), (std::vector<int64_t>{3}));
  EXPECT_EQ(test::fault([] { all_of(Named({"ann", ""})); }),
            "record 1 of the data set (named) has no user; name the field that has it (--user-field)");
  EXPECT_NE(users.fingerprint(), all_of(Named({"ann", "bob", "ann", "cid", "bob", "bob"})).fingerprint());
}

// At most so many, each part equally often, another in each step and under each key; other users change nothing.
TEST(Users, BringAtMostKRecordsDrawnByTheKey) {
  std::vector<std::string> names(5, "ann");
  names.push_back("bob");
  const auto users = all_of(Named(names));
  const auto ann = number_of(users, "ann"), bob = number_of(users, "bob");
  EXPECT_EQ(users.draw(bob, 2, key_of(1), 0), (std::vector<int64_t>{5}));
  EXPECT_EQ(users.draw(ann, 5, key_of(1), 0), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  std::map<std::vector<int64_t>, int> drawn;
  constexpr int kSteps = 20000;
  int differ = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto mine = users.draw(ann, 2, key_of(1), step);
    ASSERT_EQ(mine.size(), 2u);
    ASSERT_LT(mine[0], mine[1]);
    ++drawn[mine];
    EXPECT_EQ(mine, users.draw(ann, 2, key_of(1), step));
    if (mine != users.draw(ann, 2, key_of(2), step)) ++differ;
  }
  EXPECT_EQ(drawn.size(), 10u) << "of 5 records 2";
  for (const auto& [pair, count] : drawn) EXPECT_NEAR(count, kSteps / 10, 220) << "5 deviations";
  EXPECT_NEAR(differ, kSteps * 0.9, 220) << "another key draws others";

  names.insert(names.begin(), {"zoe", "zoe", "zoe"});  // before all others
  const auto more = all_of(Named(names));
  for (int64_t step = 0; step < 100; ++step) {
    auto moved = more.draw(number_of(more, "ann"), 2, key_of(1), step);
    for (auto& record : moved) record -= 3;
    EXPECT_EQ(moved, users.draw(ann, 2, key_of(1), step));
  }
}

TEST(Users, DrawApartFromEachOther) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) names.push_back(i % 2 == 0 ? "ann" : "bob");
  const auto users = all_of(Named(names));
  int same = 0;
  for (int64_t step = 0; step < 200; ++step) {
    const auto places = [&](int64_t user) {
      auto out = users.draw(user, 3, key_of(1), step);
      for (auto& record : out) record /= 2;
      return out;
    };
    if (places(0) == places(1)) ++same;
  }
  EXPECT_LT(same, 5);
}

TEST(TokenStoreUsers, AreKeptRecordByRecord) {
  const Folder folder;
  folder.put("a.jsonl",
             "{\"text\":\"one\",\"who\":\"ann\"}\n{\"text\":\"\",\"who\":\"bob\"}\n{\"text\":\"two\",\"who\":7}\n");
  const ByteTokenizer bytes;
  const auto opened = [&](const std::string& field) {
    StoreRequest request{.folder = folder.path()};
    request.records.fields.user = field;
    return TokenStore::open(request, bytes);
  };
  const auto store = opened("who");
  ASSERT_TRUE(store->has_users());
  EXPECT_EQ(store->records(), 2);
  EXPECT_EQ(store->user_of(0), user_id("ann"));
  EXPECT_EQ(store->user_of(1), user_id("7"));
  EXPECT_TRUE(opened("who")->reused());
  const auto plain = opened("");
  EXPECT_FALSE(plain->has_users());
  EXPECT_NE(plain->content(), store->content());
  for (const auto* file : {"users", "records"}) {  // damage is noticed
    std::filesystem::resize_file(store->place() / file, 8);
    EXPECT_FALSE(opened("who")->reused()) << file;
  }
  folder.put("a.jsonl", "{\"text\":\"one\",\"who\":\"ann\"}\n{\"text\":\"two\"}\n");
  const auto said = message_of<io::FormatError>([&] { opened("who"); });
  EXPECT_NE(said.find("a.jsonl:2"), std::string::npos) << said;
  EXPECT_NE(said.find("who"), std::string::npos) << said;
  folder.put("a.jsonl", "{\"text\":\"one\",\"who\":\"ann \"}\n");
  const auto spelled = message_of<io::FormatError>([&] { opened("who"); });
  EXPECT_NE(spelled.find("without white space around it"), std::string::npos) << spelled;
}

TEST(TokenStoreUsers, OfALongFieldAreNotThoseOfAnother) {
  const Folder folder;
  const std::string stem(60, 'x');
  folder.put("a.jsonl", text("{\"text\":\"one\",\"", stem, "1\":\"ann\",\"", stem, "2\":\"bob\"}\n"));
  const ByteTokenizer bytes;
  for (const auto& [field, user] : {std::pair{"1", "ann"}, {"2", "bob"}}) {
    StoreRequest request{.folder = folder.path()};
    request.records.fields.user = stem + field;
    EXPECT_EQ(TokenStore::open(request, bytes)->user_of(0), user_id(user));
  }
}

}  // namespace
}  // namespace shade::data
