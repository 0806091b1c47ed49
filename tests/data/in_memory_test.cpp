#include "shade/data/in_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/support/fault.h"

namespace shade::data {
namespace {

using test::fault;

std::map<std::string, at::Tensor> fields() {
  return {{"ids", at::arange(12, at::kLong).view({4, 3})}, {"label", at::tensor({0, 1, 0, 2}, at::kLong)}};
}

TEST(InMemory, GivesRowsByNumber) {
  const InMemory data(fields());
  EXPECT_EQ(data.size(), 4);
  const std::vector<int64_t> wanted{3, 1};
  const auto batch = data.batch(wanted);
  EXPECT_TRUE(at::equal(batch.field("ids"), at::tensor({9, 10, 11, 3, 4, 5}, at::kLong).view({2, 3})));
  EXPECT_TRUE(at::equal(batch.field("label"), at::tensor({2, 1}, at::kLong)));
  EXPECT_EQ(batch.row_count(), 2);
  const auto none = data.batch({});
  EXPECT_EQ(none.field("ids").sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(data.describe(), "4 records in memory (ids Long x 3, label Long)");
}

TEST(InMemory, StaysAsItWas) {
  const auto given = fields();
  const InMemory data(given);
  const auto before = data.fingerprint();
  given.at("ids").zero_();
  EXPECT_EQ(data.batch(std::vector<int64_t>{3}).field("ids")[0][0].item<int64_t>(), 9);
  EXPECT_EQ(InMemory(fields()).fingerprint(), before);
  EXPECT_NE(InMemory(given).fingerprint(), before);
}

TEST(InMemory, EveryPartIsInItsFingerprint) {
  const auto of = [](const std::map<std::string, at::Tensor>& some, InMemory::Options options = {}) {
    return InMemory(some, std::move(options)).fingerprint();
  };
  auto renamed = fields(), narrow = fields(), longer = fields();
  renamed["labels"] = renamed.extract("label").mapped();
  narrow["label"] = narrow["label"].to(at::kInt);
  for (auto& [name, tensor] : longer) tensor = at::cat({tensor, tensor.narrow(0, 0, 1)});
  std::vector<std::string> all{of(fields()),
                               of(renamed),
                               of(narrow),
                               of(longer),
                               of(fields(), {.users = {"a", "b", "a", "c"}}),
                               of(fields(), {.users = {"ab", "", "a", "c"}}),
                               of(fields(), {.classes = {"x", "y", "z"}})};
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

// Where a record stands, and who else is there, decides nothing.
TEST(InMemory, ContentIsOfTheRecordAlone) {
  const InMemory data(fields());
  auto turned = fields();
  for (auto& [name, tensor] : turned) tensor = tensor.flip(0);
  const InMemory other(turned);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(data.content_of(i), other.content_of(3 - i));
  EXPECT_NE(data.content_of(0), data.content_of(2)) << "of all fields";
}

TEST(InMemory, KnowsItsUsers) {
  const InMemory data(fields(), {.users = {"ann", "bob", "ann", "cem"}});
  const std::vector<int64_t> all{0, 1, 2, 3};
  const Users users(data, all);
  EXPECT_EQ(users.size(), 3);
  EXPECT_EQ(data.user_of(0), user_id("ann"));
  EXPECT_FALSE(InMemory(fields()).user_of(0));
}

TEST(InMemory, RefusesWhatAreNoRecords) {
  EXPECT_NE(fault([] { InMemory({}); }).find("without a field"), std::string::npos);
  EXPECT_NE(fault([] { InMemory({{"x", at::scalar_tensor(1)}}); }).find("'x' has no rows"), std::string::npos);
  auto uneven = fields();
  uneven["label"] = uneven["label"].narrow(0, 0, 3);
  EXPECT_NE(fault([&] { InMemory{uneven}; }).find("'label' has 3 rows, and 'ids' has 4"), std::string::npos);
  EXPECT_NE(fault([] { InMemory(fields(), {.users = {"a"}}); }).find("1 names of users for 4 records"),
            std::string::npos);
  EXPECT_NE(fault([] { InMemory({{"x", at::zeros({0, 2})}}); }).find("there are none"), std::string::npos);
}

}  // namespace
}  // namespace shade::data
