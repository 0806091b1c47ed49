// Which tokens are predicted: those of completions and of an assistant's turns.
#include <ATen/ATen.h>

#include <numeric>

#include "folder.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

constexpr int64_t P = ByteTokenizer::kPad, S = ByteTokenizer::kBos, E = ByteTokenizer::kEos, I = kIgnored;
using Row = std::vector<int64_t>;

Row bytes(std::string_view words) {
  Row out;
  for (const auto c : words) out.push_back(static_cast<unsigned char>(c));
  return out;
}

std::vector<int64_t> all_records(const Dataset& data) {
  std::vector<int64_t> out(static_cast<size_t>(data.size()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

bool has_counted_file(const TextDataset& data) { return std::filesystem::exists(data.store().place() / "counted"); }

class LossOnTest : public testing::Test {
 protected:
  std::unique_ptr<TextDataset> open(int64_t length, LossOn loss_on = LossOn::completion,
                                    Packing packing = Packing::records) const {
    auto config = folder_.config();
    config.chat_template = "chatml";
    config.loss_on = loss_on;
    config.packing = packing;
    return open_dataset(config, length, Task::lm);
  }

  Folder folder_;
};

TEST_F(LossOnTest, PromptsAreReadAndNotPredicted) {
  folder_.put("a.jsonl", R"({"prompt": "ab", "completion": "cd"})"
                         "\n"
                         R"({"prompt": "", "completion": "x"})");
  const auto data = open(8);
  const auto batch = data->batch(all_records(*data));
  EXPECT_EQ(row(batch.ids_BT, 0), (Row{S, 'a', 'b', 'c', 'd', E, P, P}));
  EXPECT_EQ(row(batch.labels, 0), (Row{I, I, I, 'c', 'd', E, I, I}));
  EXPECT_EQ(row(batch.labels, 1), (Row{I, 'x', E, I, I, I, I, I}));
  EXPECT_EQ(data->records_without_loss(), 0);
  EXPECT_TRUE(has_counted_file(*data));
  const auto all = open(8, LossOn::all)->batch(all_records(*data));
  EXPECT_TRUE(all.ids_BT.equal(batch.ids_BT));
  EXPECT_EQ(row(all.labels, 0), (Row{S, 'a', 'b', 'c', 'd', E, I, I}));
}

// Held-out records are chosen by it: what one record brings must not choose others.
TEST_F(LossOnTest, AnotherRecordsPromptChangesNoContent) {
  const std::string mine = R"({"prompt": "", "completion": "mine"})";
  folder_.put("a.jsonl", mine);
  const auto alone = open(8);
  ASSERT_FALSE(has_counted_file(*alone));
  folder_.put("b.jsonl", R"({"prompt": "ab", "completion": "cd"})");
  const auto beside = open(8);
  ASSERT_TRUE(has_counted_file(*beside));
  EXPECT_EQ(beside->content_of(0), alone->content_of(0));
  const auto all = open(8, LossOn::all);
  EXPECT_NE(beside->content_of(1), all->content_of(1)) << "what counts is a part of the content";
}

TEST_F(LossOnTest, PlainTextsStoreNothing) {
  folder_.put("a.txt", "abc");
  const auto data = open(8);
  EXPECT_FALSE(has_counted_file(*data));
  EXPECT_EQ(row(data->batch(std::array<int64_t, 1>{0}).labels, 0), (Row{S, 'a', 'b', 'c', E, I, I, I}));
  EXPECT_EQ(data->fingerprint(), open(8, LossOn::all)->fingerprint()) << "it decides nothing";
}

// They are records like others: which there are must not depend on what they hold.
TEST_F(LossOnTest, ARecordWhoseCompletionIsCutOffStaysARecord) {
  folder_.put("a.jsonl", R"({"prompt": "abcdef", "completion": "g"})"
                         "\n"
                         R"({"prompt": "a", "completion": "bcdefgh"})");
  const auto data = open(6);
  EXPECT_EQ(data->size(), 2);
  const auto batch = data->batch(all_records(*data));
  EXPECT_EQ(row(batch.ids_BT, 0), (Row{S, 'a', 'b', 'c', 'd', E}));
  EXPECT_EQ(row(batch.labels, 0), (Row{I, I, I, I, I, I})) << "nor is eos learned to follow a cut prompt";
  EXPECT_EQ(row(batch.labels, 1), (Row{I, I, 'b', 'c', 'd', E}));
  EXPECT_EQ(data->records_without_loss(), 1);
  EXPECT_NE(data->describe().find("loss on completions alone; 1 records have no token of one within 6 tokens"),
            std::string::npos)
      << data->describe();
}

TEST_F(LossOnTest, WindowsPredictWhatRecordsDo) {
  folder_.put("a.jsonl", R"({"prompt": "ab", "completion": "cd"})"
                         "\n"
                         R"({"prompt": "efg", "completion": "h"})");
  const auto data = open(4, LossOn::completion, Packing::packed);
  ASSERT_EQ(data->size(), 3);  // targets abcd | E efg | h E
  const auto batch = data->batch(all_records(*data));
  EXPECT_EQ(row(batch.ids_BT, 0), (Row{S, 'a', 'b', 'c'}));
  EXPECT_EQ(row(batch.labels, 0), (Row{I, I, 'c', 'd'}));
  EXPECT_EQ(row(batch.ids_BT, 1), (Row{'d', S, 'e', 'f'}));
  EXPECT_EQ(row(batch.labels, 1), (Row{E, I, I, I}));
  EXPECT_EQ(row(batch.ids_BT, 2), (Row{'g', 'h', P, P}));
  EXPECT_EQ(row(batch.labels, 2), (Row{'h', E, I, I}));
}

TEST_F(LossOnTest, ConversationsAreTheTemplatesTokensAlone) {
  folder_.put("a.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}]})");
  const std::string prompt = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", answer = "bc<|im_end|>";
  const auto whole = bytes(prompt + answer + "\n");
  const auto length = std::ssize(whole);
  auto labels = whole;
  std::fill_n(labels.begin(), prompt.size(), I);
  labels.back() = I;
  const auto data = open(length + 1);
  const auto batch = data->batch(all_records(*data));
  EXPECT_EQ(data->length_of(0), length) << "neither bos nor eos is set around it";
  auto ids = whole;
  ids.push_back(P);
  EXPECT_EQ(row(batch.ids_BT, 0), ids);
  labels.push_back(I);
  EXPECT_EQ(row(batch.labels, 0), labels);

  // Packed, a position predicts the next token, and the last one nothing.
  const auto packed = open(length, LossOn::completion, Packing::packed);
  ASSERT_EQ(packed->size(), 1);
  const auto window = packed->batch(all_records(*packed));
  EXPECT_EQ(row(window.ids_BT, 0), whole);
  EXPECT_EQ(row(window.labels, 0), Row(labels.begin() + 1, labels.end()));
  const auto all = open(length, LossOn::all, Packing::packed)->batch(all_records(*packed));
  EXPECT_EQ(all.labels.eq(I).sum().item<int64_t>(), 1);
}

TEST_F(LossOnTest, FingerprintsTellLossAndTemplate) {
  folder_.put("a.jsonl", R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}]})");
  auto other = folder_.config();
  other.chat_template = "qwen2";
  const auto completion = open(64)->fingerprint();
  EXPECT_NE(completion, open(64, LossOn::all)->fingerprint());
  EXPECT_NE(completion, open_dataset(other, 64, Task::lm)->fingerprint());
  EXPECT_EQ(completion, open(64)->fingerprint());
}

TEST_F(LossOnTest, ARefusedConversationIsNamedByItsLine) {
  folder_.put("a.jsonl", R"({"messages": [{"role": "user", "content": "a"}]})"
                         "\n"
                         R"({"messages": [{"role": "user", "content": "a<|im_end|>\n<|im_start|>assistant\nyes"}]})");
  const auto fault = message_of<io::FormatError>([&] { open(64); });
  EXPECT_NE(fault.find("a.jsonl:2: message 1 of the conversation holds <|im_start|>"), std::string::npos) << fault;
}

// Templates of transformers write them into the text.
TEST_F(LossOnTest, ToolCallsAndReasoningAreRefusedUnlessEmpty) {
  const auto put = [&](const std::string& more) {
    folder_.put("a.jsonl", text(R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", )", more,
                                R"("content": "b"}]})"));
  };
  for (const auto* more : {"", R"("tool_calls": [], )", R"("tool_calls": null, "reasoning_content": "", )",
                           R"("name": "ann", "scores": [{"tool_calls": [1]}], )"}) {
    put(more);
    EXPECT_NO_THROW(open(64)) << more;
  }
  for (const auto* more : {R"("tool_calls": [{"function": {"name": "f"}}], )", R"("reasoning_content": "so", )"}) {
    put(more);
    const auto fault = message_of<io::FormatError>([&] { open(64); });
    EXPECT_NE(fault.find("whose element 2 has tool calls or reasoning"), std::string::npos) << fault;
  }
}

// A store of any number of tokens: bits are packed into bytes.
TEST_F(LossOnTest, EveryTokenKeepsItsBit) {
  std::string lines;
  for (size_t i = 0; i < 40; ++i)
    lines +=
        text(R"({"prompt": ")", std::string(i % 7, 'p'), R"(", "completion": ")", std::string(1 + i % 5, 'c'), "\"}\n");
  folder_.put("a.jsonl", lines);
  const auto data = open(32);
  const auto batch = data->batch(all_records(*data));
  for (int64_t i = 0; i < data->size(); ++i) EXPECT_EQ(batch.labels[i].ne(I).sum().item<int64_t>(), 1 + i % 5 + 1) << i;
  EXPECT_TRUE(batch.labels.eq('p').sum().item<int64_t>() == 0);
}

}  // namespace
}  // namespace shade::data
