#include "shade/base/strings.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>

namespace shade {
namespace {

TEST(Strings, SplitAndJoinAreInverse) {
  EXPECT_TRUE(rc::check([](const std::vector<std::string>& words) {
    RC_PRE(!words.empty());
    std::vector<std::string> clean;
    for (const auto& word : words) {
      clean.push_back(word);
      std::erase(clean.back(), ',');
    }
    std::string joined;
    for (size_t i = 0; i < clean.size(); ++i) joined += (i > 0 ? "," : "") + clean[i];
    RC_ASSERT(split(joined, ',') == clean);
  }));
}

TEST(Strings, OptionsAreSpelledWithDashes) {
  EXPECT_EQ(dashed("--batch_size"), "--batch-size");
  EXPECT_EQ(dashed("--dp.noise_seed=a_b"), "--dp.noise-seed=a_b") << "a value is the user's";
  EXPECT_EQ(dashed("flash_clip"), "flash_clip");
}

TEST(Strings, NumbersAreWholeWords) {
  EXPECT_EQ(parse_integer("12"), 12);
  EXPECT_EQ(parse_integer("-3"), -3);
  for (const char* bad : {"", "12a", "1.5", " 1", "99999999999999999999"}) EXPECT_FALSE(parse_integer(bad)) << bad;
  EXPECT_EQ(parse_real("1e-5"), 1e-5);
  EXPECT_FALSE(parse_real("1e"));
}

TEST(Strings, SuggestsWhatWasMeant) {
  const std::vector<std::string> names{"--seq-length", "--batch-size", "--shard"};
  EXPECT_EQ(nearest("--seq-lenght", names), "--seq-length");
  EXPECT_EQ(nearest("--shrad", names), "--shard");
  EXPECT_EQ(nearest("--completely-else", names), std::nullopt);
  EXPECT_EQ(suggestion("--batchsize", names), "; did you mean '--batch-size'?");
  EXPECT_EQ(suggestion("x", names), "");
  const std::vector<std::string> short_names{"--eps", "--lr", "--seq"};
  EXPECT_EQ(nearest("--gpu", short_names), std::nullopt) << "two of three letters are another word";
  EXPECT_EQ(nearest("--esp", short_names), "--eps") << "two letters swapped are one slip";
  EXPECT_EQ(nearest("--ep", short_names), "--eps");
  EXPECT_EQ(nearest("--sec", short_names), "--seq");
}

TEST(Strings, SuggestsTheBeginningOfANameAndSynonyms) {
  const std::vector<std::string> names{"--optim.lr", "--optimizer", "--batch-size", "--batch-size-limit"};
  EXPECT_EQ(nearest("--batch", names), "--batch-size") << "the shortest";
  EXPECT_EQ(nearest("--optim", names), "--optimizer") << "not the long spelling of an option";
  const std::vector<std::string> verbs{"train", "eval"}, types{"fp32", "bf16"};
  EXPECT_EQ(suggestion("fine-tune", verbs), "; did you mean 'train'?");
  EXPECT_EQ(suggestion("generation", verbs), "") << "what it stands for is not offered";
  EXPECT_EQ(suggestion("fp16", types), "; fp16 is not supported; the 16-bit type is bf16") << "not fp32";
}

TEST(Strings, RangesStayShort) {
  EXPECT_EQ(ranges(std::array{0, 1, 2, 5}), "0-2, 5");
  EXPECT_EQ(ranges(std::array{3, 4}), "3, 4");
  EXPECT_EQ(ranges(std::array{7}), "7");
  EXPECT_EQ(ranges(std::span<const int>{}), "");
}

}  // namespace
}  // namespace shade
