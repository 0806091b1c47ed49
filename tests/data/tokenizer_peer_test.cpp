// The `tokenizers` package compared with ours: strings of many scripts, Debian descriptions and source code, for every
// kind and for the tokenizer of a real pretrained model.
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
    const std::string kind = GetParam();
    const auto file = test::source_root() +
                      (kind == "smollm2" ? "/.deps/models/smollm2-135m" : "/tests/golden/tokenizer_" + kind) +
                      "/tokenizer.json";
    if (!std::filesystem::exists(file)) GTEST_SKIP() << "no SmolLM2: run tools/real_model";
    const auto out = folder.path() / "cases.bin";
    const auto made = test::run(
        {python_, test::source_root() + "/tools/golden/make_tokenizers.py", "cases", file, out.string(), count, seed},
        {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}, {"RAYON_NUM_THREADS", "1"}}, .limit = Seconds(600)});
    ASSERT_EQ(made.status, 0) << made.output;
    const auto cases = read_cases(out);
    EXPECT_EQ(text(cases.size()), count);
    EXPECT_EQ(differences(*read_tokenizer(file), cases), 0);
  }

  std::string python_ = test::source_root() + "/.deps/peers/bin/python";
};

TEST_P(TokenizerPeer, SameIdsAndTexts) {
  const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;
  compare(full ? "200000" : "20000", full ? "8" : "7");
}

INSTANTIATE_TEST_SUITE_P(, TokenizerPeer,
                         testing::Values("gpt2", "llama3", "mistral", "mistral_v3", "qwen2", "smollm", "smollm2"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace shade::data
