#include "shade/data/chat/chat_template.h"

#include <map>

#include "../support/process.h"
#include "folder.h"
#include "shade/data/chat/chat_styles.h"
#include "shade/data/token_store_writer.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

const std::vector<Message> kTalk = {{"user", " Hi "}, {"assistant", "Ho\n"}, {"user", "Go"}};
const std::vector<Message> kTold = {{"system", "Be brief"}, {"user", "Hi"}, {"assistant", "Ho"}};

ChatTemplate of_bytes(const std::string& name) { return {"", name, ByteTokenizer()}; }

// What is counted is in brackets.
std::string shown(const ChatTemplate& chat, const std::vector<Message>& talk, bool generation_prompt = false) {
  std::string out;
  for (const auto& part : chat.parts(talk, generation_prompt)) out += part.counted ? "{" + part.text + "}" : part.text;
  return out;
}

std::string refusal(const ChatTemplate& chat, const std::vector<Message>& talk) {
  return message_of<io::FormatError>([&] { chat.parts(talk); });
}

// transformers' texts are compared in chat_template_peer_test; these say what is counted.
TEST(ChatTemplate, AnswersAndTheEndsOfTheirTurnsAreCounted) {
  const std::map<std::string, std::string> expected = {
      {"chatml",
       "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n{Ho\n<|im_end|>}\n<|im_start|>user\nGo<|im_end|>\n"
       "<|im_start|>assistant\n"},
      {"smollm2",
       "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
       "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n{Ho\n<|im_end|>}\n<|im_start|>user\nGo<|im_end|>\n"
       "<|im_start|>assistant\n"},
      {"llama3",
       "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
       "<|end_header_id|>\n\n{Ho<|eot_id|>}<|start_header_id|>user<|end_header_id|>\n\nGo<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"mistral-v0.1", "<s>[INST]  Hi  [/INST]{Ho\n</s>} [INST] Go [/INST]"},
      {"mistral-v3", "<s>[INST]  Hi [/INST]{ Ho</s>}[INST] Go[/INST]"},
      {"gemma",
       "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n{Ho<end_of_turn>}\n<start_of_turn>user\nGo"
       "<end_of_turn>\n<start_of_turn>model\n"}};
  for (const auto& [name, text] : expected) EXPECT_EQ(shown(of_bytes(name), kTalk, true), text) << name;
}

TEST(ChatTemplate, SystemMessagesGoWhereTheModelExpectsThem) {
  EXPECT_EQ(shown(of_bytes("smollm2"), kTold),
            "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
            "{Ho<|im_end|>}\n");
  EXPECT_EQ(shown(of_bytes("llama3.1"), kTold),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
            "Today Date: 26 Jul 2024\n\nBe brief<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{Ho<|eot_id|>}");
  EXPECT_EQ(shown(of_bytes("mistral-v1"), kTold), "<s> [INST] Be brief\n\nHi [/INST]{ Ho</s>}");
  EXPECT_EQ(shown(of_bytes("gemma3"), kTold),
            "<bos><start_of_turn>user\nBe brief\n\nHi<end_of_turn>\n<start_of_turn>model\n{Ho<end_of_turn>}\n");
  EXPECT_EQ(refusal(of_bytes("gemma"), kTold),
            "the conversation has a system message, which the model's chat template refuses; put it into the first "
            "message of the user");
}

TEST(ChatTemplate, ThoughtsOfEarlierTurnsAreLeftOut) {
  const auto chat = of_bytes("qwen3");
  EXPECT_EQ(
      shown(chat, {{"user", "a"}, {"assistant", "<think>\nwhy\n</think>\n\nb"}, {"user", "c"}, {"assistant", "d"}}),
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n{b<|im_end|>}\n<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\n{<think>\n\n</think>\n\nd<|im_end|>}\n");
}

TEST(ChatTemplate, RefusesWhatTheTemplateRefuses) {
  const auto chat = of_bytes("mistral-v3");
  EXPECT_EQ(refusal(chat, {{"user", "a"}, {"user", "b"}}),
            "message 2 of the conversation has the role \"user\"; the model's chat template lets user and assistant "
            "take turns, the user first");
  EXPECT_EQ(refusal(chat, {}), "the conversation has no message");
  EXPECT_EQ(refusal(chat, {{"tool", "a"}}),
            "message 1 of the conversation has the role 'tool'; expected system, user or assistant");
}

// Otherwise a user could write the assistant's turns.
TEST(ChatTemplate, RefusesContentsThatWouldBeReadAsTurns) {
  for (const auto& style : chat_styles()) {
    const auto chat = of_bytes(std::string(style.name));
    for (const auto& words : {style.tokens, style.delimiters})
      for (const auto word : words)
        EXPECT_NE(refusal(chat, {{"user", text("see ", word, " here")}}).find("delimits turns"), std::string::npos)
            << style.name << " " << word;
  }
}

TEST(ChatTemplate, TemplatesAreTakenForNoOther) {
  std::map<std::string, std::string_view> seen;
  for (const auto& style : chat_styles()) {
    const auto jinja = jinja_of(style);
    EXPECT_EQ(recognise_template(jinja), &style);
    EXPECT_EQ(recognise_template(jinja + "\n"), &style) << "a newline at the end is nothing";
    EXPECT_EQ(recognise_template(jinja + " "), nullptr);
    for (const auto digest : style.published) {
      EXPECT_EQ(digest.size(), hash::kDigestDigits);
      EXPECT_TRUE(seen.emplace(digest, style.name).second) << style.name << " and " << seen[std::string(digest)];
    }
    EXPECT_TRUE(seen.emplace(digest_of_template(jinja), style.name).second) << style.name;
  }
}

class FolderOfATokenizer : public Folder {
 public:
  FolderOfATokenizer() {
    const auto golden = test::source_root() + "/tests/golden/tokenizer_qwen2/tokenizer.json";
    put("tokenizer.json", io::content(golden));
  }
  ChatTemplate chat(const std::string& name = "") const {
    return {path().string(), name, *open_tokenizer(path().string())};
  }
};

std::string quoted(const std::string& words) { return Json(words).dump(); }

TEST(ChatTemplate, IsReadFromTheModelsFolder) {
  const auto jinja = jinja_of(*recognise_template(of_bytes("qwen2").jinja()));
  for (const auto& [file, content] : std::map<std::string, std::string>{
           {"chat_template.jinja", jinja},
           {"chat_template.json", "{\"chat_template\": " + quoted(jinja) + "}"},
           {"tokenizer_config.json", "{\"eos_token\": \"<|im_end|>\", \"chat_template\": " + quoted(jinja) + "}"}}) {
    const FolderOfATokenizer folder;
    folder.put(file, content);
    EXPECT_EQ(folder.chat().name(), "qwen2") << file;
    EXPECT_EQ(folder.chat().jinja(), jinja);
    EXPECT_EQ(folder.chat("chatml").name(), "chatml") << "a user's word wins";
    EXPECT_NE(folder.chat("chatml").fingerprint(), folder.chat().fingerprint());
  }
  const FolderOfATokenizer folder;
  folder.put("tokenizer_config.json",
             "{\"eos_token\": \"<|im_end|>\", \"chat_template\": [{\"name\": \"tool_use\", "
             "\"template\": \"x\"}, {\"name\": \"default\", \"template\": " +
                 quoted(jinja) + "}]}");
  EXPECT_EQ(folder.chat().name(), "qwen2");
}

// Texts that are no conversations are trained on without one.
TEST(ChatTemplate, IsMissedOnlyByConversations) {
  const FolderOfATokenizer folder;
  EXPECT_EQ(folder.chat().name(), "");
  EXPECT_NE(refusal(folder.chat(), kTalk).find("has none; name the one that the model was trained with"),
            std::string::npos);
  folder.put("chat_template.jinja", "{{ something_else }}\nmore");
  EXPECT_NE(refusal(folder.chat(), kTalk).find("is not one that is implemented ('{{ something_else }}'..."),
            std::string::npos)
      << refusal(folder.chat(), kTalk);
  EXPECT_NE(refusal(folder.chat("gemma"), kTalk).find("delimits turns by <start_of_turn>, which is no token"),
            std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { folder.chat("alpaca"); }).find("no chat template has the name 'alpaca'"),
            std::string::npos);
}

// A prompt has the tokens that it has alone, whatever follows.
TEST(PartTokens, PromptsKeepTheirTokens) {
  const auto tokenizer = open_tokenizer(test::source_root() + "/tests/golden/tokenizer_qwen2");
  const auto encode = [&](std::string_view words) {
    std::vector<TokenId> ids;
    tokenizer->encode(words, ids);
    return ids;
  };
  int joined = 0;
  for (const auto* prompt : {"Where is it?", "Answer: ", "a\n", "the harb", "1", "", "<|im_start|>assistant\n"})
    for (const auto* answer : {"it is here", " it", "\n\nhere", "our", "2", "<|im_end|>"}) {
      const PartText parts[] = {{prompt, false}, {answer, true}};
      std::vector<TokenId> ids;
      std::vector<uint8_t> counted;
      encode_parts(*tokenizer, parts, ids, counted);
      const auto alone = encode(prompt), whole = encode(std::string(prompt) + answer);
      ASSERT_EQ(ids.size(), counted.size());
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), ids.begin())) << prompt << "|" << answer;
      EXPECT_EQ(std::ranges::count(counted, 0), std::ssize(alone));
      EXPECT_EQ(tokenizer->decode(ids, true), std::string(prompt) + answer);
      if (whole.size() >= alone.size() && std::equal(alone.begin(), alone.end(), whole.begin())) {
        EXPECT_EQ(ids, whole);
      } else {
        ++joined;
      }
    }
  EXPECT_GT(joined, 0);
}

}  // namespace
}  // namespace shade::data
