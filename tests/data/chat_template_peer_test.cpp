// transformers' apply_chat_template beside ours: 1,000 conversations for each template, as text and as ids.
#include <cstdlib>
#include <map>

#include "../support/process.h"
#include "folder.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/data/chat/chat_styles.h"
#include "shade/data/chat/chat_template.h"
#include "shade/data/token_store_writer.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

bool begins_with_space(const Message& message) {
  return !message.content.empty() && strip(message.content).data() != message.content.data();
}

class ChatTemplatePeer : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(python_)) GTEST_SKIP() << "no transformers package: run tools/bootstrap peers";
  }

  void run_script(std::vector<std::string> words) const {
    words.insert(words.begin(), {python_, test::source_root() + "/tools/golden/chat_templates.py"});
    const auto made = test::run(
        words, {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}, {"RAYON_NUM_THREADS", "1"}, {"HF_HUB_OFFLINE", "1"}},
                .limit = Seconds(400)});
    ASSERT_EQ(made.status, 0) << made.output;
  }

  // A tokenizer with this template in `folder`.
  void make_folder(const fs::path& folder, const ChatStyle& style, std::string_view jinja) const {
    const Folder scratch;
    fs::create_directories(folder);
    std::vector<std::string> words = {"folder",
                                      test::source_root() + "/tests/golden/tokenizer_llama3",
                                      folder.string(),
                                      scratch.put("text", jinja).string(),
                                      style.bos.empty() ? "<|begin_of_text|>" : std::string(style.bos),
                                      style.eos.empty() ? "<|end_of_text|>" : std::string(style.eos)};
    words.insert(words.end(), style.tokens.begin(), style.tokens.end());
    run_script(words);
  }

  // All folders of a place, each with a tokenizer and its template.
  void compare(const std::map<fs::path, const ChatStyle*>& folders) const {
    std::vector<std::string> words = {"cases", "1000", "7"};
    for (const auto& [folder, style] : folders) words.push_back(folder.string());
    run_script(words);
    for (const auto& [folder, style] : folders) compare_folder(folder, *style);
  }

  void compare_folder(const fs::path& folder, const ChatStyle& style) const {
    const auto cases = folder / "cases.jsonl";
    const auto tokenizer = open_tokenizer(folder.string());
    const ChatTemplate chat(folder.string(), "", *tokenizer);
    ASSERT_EQ(chat.name(), style.name);
    int seen = 0, refused = 0, wrong = 0, other_ids = 0;
    for (const auto& line : split(io::content(cases), '\n')) {
      if (line.empty()) continue;
      ++seen;
      const auto one = Json::parse(line);
      std::vector<Message> messages;
      for (const auto& message : one.at("messages"))
        messages.push_back({message.at("role").get<std::string>(), message.at("content").get<std::string>()});
      std::vector<Part> parts;
      try {
        parts = chat.parts(messages, one.at("generation_prompt").get<bool>());
      } catch (const io::FormatError& fault) {
        ++refused;
        if (!one.at("text").is_null() && ++wrong <= 3) ADD_FAILURE() << "refused: " << line << "\n" << fault.what();
        continue;
      }
      const auto text = Record{.parts = parts}.text();
      if ((one.at("text").is_null() || one.at("text").get<std::string>() != text) && ++wrong <= 3)
        ADD_FAILURE() << "differs: " << line << "\nours     " << testing::PrintToString(text);
      std::vector<PartText> pieces;
      for (const auto& part : parts) pieces.push_back({part.text, part.counted});
      std::vector<TokenId> ids;
      std::vector<uint8_t> counted;
      encode_parts(*tokenizer, pieces, ids, counted);
      if (ids != one.at("ids").get<std::vector<TokenId>>()) {
        // The prompt before an answer is tokenized alone, so only an answer that begins with space may differ.
        ++other_ids;
        const bool expected = std::ranges::any_of(messages, begins_with_space);
        if (!expected && ++wrong <= 3) ADD_FAILURE() << "other ids: " << line << "\n" << testing::PrintToString(ids);
      }
      check_counted(*tokenizer, parts, ids, counted);
    }
    EXPECT_EQ(seen, 1000);
    EXPECT_EQ(wrong, 0);
    EXPECT_LT(refused, 700);
    std::printf("%-18s 1000 conversations, %d refused by both, %d with other ids at the begin of an answer\n",
                std::string(style.name).c_str(), refused, other_ids);
  }

  static void check_counted(const Tokenizer& tokenizer, const std::vector<Part>& parts, const std::vector<TokenId>& ids,
                            const std::vector<uint8_t>& counted) {
    ASSERT_EQ(ids.size(), counted.size());
    for (const bool wanted : {false, true}) {
      std::string text;
      for (const auto& part : parts) text += part.counted == wanted ? part.text : "";
      std::vector<TokenId> some;
      for (size_t i = 0; i < ids.size(); ++i)
        if ((counted[i] != 0) == wanted) some.push_back(ids[i]);
      EXPECT_EQ(tokenizer.decode(some, true), text);
    }
  }

  std::string python_ = test::source_root() + "/.deps/peers/bin/python";
};

TEST_F(ChatTemplatePeer, OurProgramsWriteWhatWeWrite) {
  const Folder place;
  std::map<fs::path, const ChatStyle*> folders;
  for (const auto& style : chat_styles()) {
    make_folder(place.path() / style.name, style, jinja_of(style));
    folders[place.path() / style.name] = &style;
  }
  compare(folders);
}

// Texts that models publish: NAME.jinja or NAME.anything.jinja in the folder SHADE_CHAT_TEXTS.
TEST_F(ChatTemplatePeer, PublishedTemplates) {
  const auto* texts = std::getenv("SHADE_CHAT_TEXTS");
  if (texts == nullptr) GTEST_SKIP() << "set SHADE_CHAT_TEXTS to a folder of chat templates";
  const Folder place;
  std::map<fs::path, const ChatStyle*> folders;
  for (const auto& file : fs::directory_iterator(texts)) {
    const auto jinja = io::content(file.path());
    const auto* style = recognise_template(jinja);
    ASSERT_NE(style, nullptr) << file.path();
    EXPECT_TRUE(file.path().filename().string().starts_with(style->name)) << file.path() << " is " << style->name;
    make_folder(place.path() / file.path().stem(), *style, jinja);
    folders[place.path() / file.path().stem()] = style;
  }
  compare(folders);
}

TEST_F(ChatTemplatePeer, RealModel) {
  const auto model = test::source_root() + "/.deps/models/smollm2-135m";
  if (!fs::exists(model)) GTEST_SKIP() << "no real model: run tools/real_model";
  const Folder place;
  for (const auto* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    fs::copy(fs::path(model) / name, place.path() / name);
  const auto* style = recognise_template(io::content(place.path() / "chat_template.jinja"));
  ASSERT_NE(style, nullptr);
  EXPECT_EQ(style->name, "smollm2");
  compare({{place.path(), style}});
}

}  // namespace
}  // namespace shade::data
