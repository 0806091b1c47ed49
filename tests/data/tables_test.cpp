// .parquet and .arrow files that pyarrow wrote, sound and hostile; skipped without libshade_arrow.so.
#include <fstream>
#include <random>

#include "../support/process.h"
#include "record_files.h"
#include "shade/base/strings.h"
#include "shade/data/arrow/arrow_library.h"
#include "shade/data/chat/chat_template.h"
#include "shade/data/tokenizer/bpe_tokenizer.h"

namespace shade::data {
namespace {

class Tables : public testing::Test {
 protected:
  void SetUp() override {
    if (!arrow_library().loaded()) GTEST_SKIP() << arrow_library().why_not();
  }

  void make(const std::string& kind) const {
    const auto made = test::run(
        {"python3", test::source_root() + "/tests/data/make_tables.py", kind, folder_.path().string()},
        {.environment = {{"PYTHONPATH", test::source_root() + "/.deps/arrow"}, {"PYTHONDONTWRITEBYTECODE", "1"}},
         .limit = Seconds(100)});
    ASSERT_EQ(made.status, 0) << made.output;
  }

  io::Scratch folder_;
  const std::string golden_ = test::source_root() + "/tests/golden/tokenizer_qwen2";
  const ChatTemplate chatml_{golden_, "chatml", *read_tokenizer(golden_)};
};

TEST_F(Tables, OfEveryKindAreRead) {
  make("good");
  const std::vector<std::string> plain{"one #a @7 :1", "zwei \u00e4\u00f6 #b @8 :2", "three\nlines #a @7 :3"};
  int tables = 0, chats = 0;
  for (const auto& file : find_text_files(folder_.path())) {
    SCOPED_TRACE(file.name);
    if (file.name.find(".chat.") == file.name.npos) {
      EXPECT_EQ(shown_in(file.path, {.fields = {.user = "who"}}), plain);
      ++tables;
      continue;
    }
    const auto records = records_in(file.path, {.chat_template = &chatml_});
    ASSERT_EQ(records.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
      const Message conversation[] = {{"user", text("ask ", i)}, {"assistant", text("say ", i)}};
      EXPECT_EQ(records[i].parts, chatml_.parts(conversation));
    }
    ++chats;
  }
  EXPECT_EQ(tables, 19);
  EXPECT_EQ(chats, 6);
}

TEST_F(Tables, HostileOnesAreRefused) {
  make("hostile");
  std::ifstream table(folder_.path() / "cases.tsv");
  int cases = 0;
  for (std::string line; std::getline(table, line); ++cases) {
    const auto words = split(line, '\t');
    SCOPED_TRACE(words[0]);
    const auto message = refusal_of(folder_.path() / words[1]);
    EXPECT_NE(message, "") << "it was read";
    EXPECT_NE(message.find(words[3]), message.npos) << message;
    // The file or, where two were made, the other one is named first.
    EXPECT_TRUE(message.starts_with(words[2]) || message.starts_with("b.")) << message;
    EXPECT_EQ(message.find_first_of("\n\r\x1b"), message.npos) << message;
    EXPECT_LT(message.size(), 1000U) << message;
  }
  EXPECT_GE(cases, 100);
}

// Whatever bytes change, a file is read or refused.
TEST_F(Tables, WithRandomDamageDoNotCrash) {
  make("good");
  std::mt19937 draw(7);
  int refused = 0, read = 0;
  for (const auto* name : {"plain.parquet", "zstd.parquet", "list.chat.parquet", "dictionary.parquet", "file.arrow",
                           "stream.arrow", "dictionary.arrow", "zstd.arrow", "list.chat.arrow"}) {
    const auto whole = io::content(folder_.path() / name);
    const io::Scratch scratch;
    for (int i = 0; i < 150; ++i) {
      auto damaged = whole;
      for (auto changes = 1 + draw() % 3; changes > 0; --changes)
        damaged[draw() % damaged.size()] = static_cast<char>(draw());
      const auto path = scratch.write(std::string("a") + std::filesystem::path(name).extension().string(), damaged);
      (refusal_of(path, {.chat_template = &chatml_}).empty() ? read : refused) += 1;
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace shade::data
