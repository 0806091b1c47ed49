// Words of other programs, on a command line that has a few options.
#include "shade/cli/foreign_words.h"

#include <gtest/gtest.h>

#include <map>

#include "shade/base/error.h"
#include "tests/support/fault.h"

namespace shade::cli {
namespace {

using Words = std::vector<std::string>;

// Options by their spellings; two spellings of one option have one number.
OwnOptions own(std::string verb, std::map<std::string, int> spellings) {
  static const int kPlaces[100]{};
  return {.verb = std::move(verb), .find = [spellings](const std::string& word) -> const void* {
            const auto found = spellings.find(word);
            return found == spellings.end() ? nullptr : &kPlaces[found->second];
          }};
}

const OwnOptions kBench = own(
    "bench", {{"--dp", 0}, {"--mode", 0}, {"--shard", 1}, {"--json", 2}, {"--comm.backend", 3}, {"--batch-size", 4}});

TEST(ForeignWords, BecomeOurs) {
  EXPECT_EQ(in_own_words({"--use-fsdp", "--seq", "8"}, kBench), (Words{"--shard", "zero3", "--seq", "8"}));
  EXPECT_EQ(in_own_words({"--use-fsdp", "true", "x"}, kBench), (Words{"--shard", "zero3", "x"}));
  EXPECT_EQ(in_own_words({"--use-fsdp", "x"}, kBench), (Words{"--shard", "zero3", "x"})) << "x is no switch's value";
  EXPECT_EQ(in_own_words({"--output", "a.json"}, kBench), (Words{"--json", "a.json"}));
  EXPECT_EQ(in_own_words({"--output=a.json"}, kBench), (Words{"--json", "a.json"}));
  EXPECT_EQ(in_own_words({"--device", "cpu"}, kBench), (Words{"--comm.backend", "gloo"}));
  EXPECT_EQ(in_own_words({"--device", "cuda"}, kBench), (Words{"--comm.backend", "nccl"}));
  EXPECT_EQ(in_own_words({"--device", "auto"}, kBench), (Words{"--comm.backend", "auto"}));
  EXPECT_EQ(in_own_words({"--max-physical-batch-size", "4"}, kBench), (Words{"--batch-size", "4"}));
}

TEST(ForeignWords, AreLeftToWhoHasThem) {
  EXPECT_EQ(in_own_words({"--resume"}, own("compare", {{"--resume", 0}})), (Words{"--resume"}));
  EXPECT_EQ(in_own_words({"--use-fsdp"}, own("account", {{"--json", 0}})), (Words{"--use-fsdp"}))
      << "an unknown option";
}

TEST(ForeignWords, NeverDecideAgainstAnOption) {
  EXPECT_EQ(test::fault([] { in_own_words({"--use-fsdp=false", "x"}, kBench); }),
            "--use-fsdp false has no meaning here; name what you want instead of --shard zero3");
  EXPECT_EQ(test::fault([] { in_own_words({"--use-flash", "--dp", "none"}, kBench); }),
            "--use-flash means --dp flash, and --dp is given too; drop one of them");
  EXPECT_EQ(test::fault([] { in_own_words({"--mode=no_dp", "--use-flash"}, kBench); }),
            "--use-flash means --dp flash, and --mode is given too; drop one of them")
      << "in another spelling, and before";
  EXPECT_EQ(test::fault([] { in_own_words({"--cpu", "--device", "cuda"}, kBench); }),
            "--device (--comm.backend nccl) contradicts --cpu (--comm.backend gloo); drop one of them");
  EXPECT_EQ(in_own_words({"--cpu", "--device", "cpu"}, kBench).size(), 4u) << "the same twice is no contradiction";
}

TEST(ForeignWords, WithoutAMeaningNameOurs) {
  const auto train = own("train", {{"--steps", 0}, {"--epsilon", 1}});
  EXPECT_EQ(
      test::fault([&] { in_own_words({"--epochs", "3"}, train); }),
      "there is no --epochs here: training is counted in updates: --steps N; an epoch has as many as records over "
      "the global batch size");
  EXPECT_EQ(in_own_words({"--report-to", "tensorboard", "x"}, train), (Words{"x"}));
  EXPECT_THROW(in_own_words({"--report-to", "wandb"}, train), UsageError);
  EXPECT_THROW(in_own_words({"--report-to", "tensorboard"}, kBench), UsageError) << "bench writes none unless asked";
  EXPECT_EQ(in_own_words({"--epsilon", "8"}, train), (Words{"--epsilon", "8"}));
  EXPECT_THROW(in_own_words({"--epsilon", "8"}, kBench), UsageError) << "no budget there, and none is pretended";
  EXPECT_THROW(in_own_words({"--output"}, kBench), UsageError);
  EXPECT_THROW(in_own_words({"--use-fsdp=perhaps"}, kBench), UsageError);
}

TEST(ForeignWords, AreInTheHelpOfWhoUnderstandsThem) {
  const auto help = foreign_words_help(kBench);
  for (const char* part : {"Aliases:\n", "--use-fsdp", "--shard zero3", "--device cpu", "--output VALUE"})
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  EXPECT_EQ(help.find("--epochs"), std::string::npos);
  EXPECT_EQ(foreign_words_help(own("data", {})), "");
}

TEST(ForeignWords, ATokenGoesNowhere) {
  EXPECT_EQ(without_token({"--token", "secret", "--seq", "8"}), (Words{"--seq", "8"}));
  EXPECT_EQ(without_token({"--token=secret", "--", "--token", "theirs"}), (Words{"--", "--token", "theirs"}));
  EXPECT_EQ(without_token({"--token", "--seq", "8"}), (Words{"--seq", "8"}));
  std::string name = "--token", secret = "secret", joined = "--token=other", more = "8";
  char* words[] = {name.data(), secret.data(), joined.data(), more.data()};
  hide_token(words, words + 4);
  EXPECT_EQ(secret + joined + more, "******--token=*****8");
}

}  // namespace
}  // namespace shade::cli
