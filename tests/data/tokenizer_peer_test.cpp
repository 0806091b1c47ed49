// The `tokenizers` package beside ours, on 100,000 strings of many scripts for each kind.
#include "../support/process.h"
#include "shade/data/tokenizer/bpe_tokenizer.h"
#include "tokenizer_cases.h"

namespace shade::data {
namespace {

class TokenizerPeer : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(python_)) GTEST_SKIP() << "no tokenizers package: run tools/bootstrap peers";
  }

  void compare(const char* count, const char* seed) const {
    const Folder folder;
    const auto file = test::source_root() + "/tests/golden/tokenizer_" + GetParam() + "/tokenizer.json";
    const auto out = folder.path() / "cases.bin";
    const auto made = test::run(
        {python_, test::source_root() + "/tools/golden/make_tokenizers.py", "cases", file, out.string(), count, seed},
        {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}, {"RAYON_NUM_THREADS", "1"}}, .limit = Seconds(200)});
    ASSERT_EQ(made.status, 0) << made.output;
    const auto cases = read_cases(out);
    EXPECT_EQ(text(cases.size()), count);
    EXPECT_EQ(differences(*read_tokenizer(file), cases), 0);
  }

  std::string python_ = test::source_root() + "/.deps/peers/bin/python";
};

TEST_P(TokenizerPeer, StringsOfManyScripts) { compare("100000", "7"); }

INSTANTIATE_TEST_SUITE_P(, TokenizerPeer, testing::Values("llama3", "qwen2"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace shade::data
