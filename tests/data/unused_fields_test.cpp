// Which fields no record is made of, and which of them may say whose record it is; counts of a data set.
#include "shade/data/unused_fields.h"

#include "folder.h"
#include "shade/data/statistics.h"

namespace shade::data {
namespace {

TEST(UnusedFields, AreCalledLikeAUser) {
  for (const char* name : {"user", "user_id", "userId", "UserID", "USER_ID", "users", "author", "author_email",
                           "customer-no", "Patient", "speaker.name", "maintainer"})
    EXPECT_TRUE(is_called_like_a_user(name)) << name;
  for (const char* name :
       {"", "id", "text", "label", "use", "superuserland", "authority", "lang", "emailed_text_body_x"})
    EXPECT_FALSE(is_called_like_a_user(name)) << name;
}

TEST(UnusedFields, AreFoundWithTheirValues) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += text("{\"text\":\"x\",\"label\":\"a\",\"id\":", i, ",\"who\":\"", i / 4, "\",\"kind\":\"", i % 2,
                  "\",\"author\":null}\n");
  folder.put("a.jsonl", lines);
  const auto unused = find_unused_fields(find_text_files(folder.path()), {});
  ASSERT_EQ(unused.size(), 4U);
  const auto shown = [](const UnusedField& field) {
    return text(field.name, " ", field.values, " of ", field.rows, field.may_be_a_user() ? " user" : "");
  };
  EXPECT_EQ(shown(unused[0]), "id 100 of 100");
  EXPECT_EQ(shown(unused[1]), "who 25 of 100 user");
  EXPECT_EQ(shown(unused[2]), "kind 2 of 100");
  EXPECT_EQ(shown(unused[3]), "author 0 of 0 user");
  EXPECT_EQ(find_unused_fields(find_text_files(folder.path()), {.fields = {.user = "who"}}).size(), 3U);
  EXPECT_EQ(find_unused_fields(find_text_files(folder.path()), {}, 10)[0].rows, 10);
}

TEST(Statistics, CountLengthsAndLabels) {
  const Folder folder;
  std::string lines;
  for (const int length : {1, 14, 15, 30, 31, 100})
    lines +=
        text("{\"text\":\"", std::string(static_cast<size_t>(length), 'x'), "\",\"label\":\"", length % 2, "\"}\n");
  folder.put("a.jsonl", lines + "{\"text\":\"x\"}\n");
  const auto data = open_dataset(folder.config(), 32, Task::lm);
  const auto counts = count_records(*data);
  std::vector<std::vector<int64_t>> buckets;  // bos and eos are two more tokens
  for (const auto& bucket : counts.lengths) buckets.push_back({bucket.first, bucket.last, bucket.records});
  EXPECT_EQ(buckets, (std::vector<std::vector<int64_t>>{{1, 16, 3}, {17, 32, 2}, {33, 64, 1}, {65, 128, 1}}));
  EXPECT_EQ(counts.longest, 102);
  EXPECT_EQ(counts.cut, 2);
  EXPECT_NEAR(counts.mean_length, (192 + 7 * 2) / 7.0, 1e-9);
  EXPECT_EQ(counts.labels, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(counts.unlabelled, 1);
}

}  // namespace
}  // namespace shade::data
