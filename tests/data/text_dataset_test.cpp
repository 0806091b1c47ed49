#include "shade/data/text_dataset.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

#include "folder.h"

namespace shade::data {
namespace {

constexpr int64_t P = ByteTokenizer::kPad, S = ByteTokenizer::kBos, E = ByteTokenizer::kEos, I = kIgnored;
using Row = std::vector<int64_t>;

std::vector<int64_t> all_records(const Dataset& data) {
  std::vector<int64_t> out(static_cast<size_t>(data.size()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(TextDataset, ARecordIsASample) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"\"}\n{\"text\":\"abcdefgh\"}\n{\"text\":\"abcd\"}\n");
  const auto data = open_dataset(folder.config(), 6, Task::lm);
  ASSERT_EQ(data->size(), 3);  // the empty one is left out
  const auto batch = data->batch(all_records(*data));
  EXPECT_EQ(row(batch.ids_BT, 0), (Row{S, 'a', 'b', 'c', E, P}));
  EXPECT_EQ(row(batch.mask_BT, 0), (Row{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(row(batch.labels, 0), (Row{S, 'a', 'b', 'c', E, I}));
  EXPECT_EQ(row(batch.ids_BT, 1), (Row{S, 'a', 'b', 'c', 'd', E})) << "cut, but not its end";
  EXPECT_EQ(row(batch.mask_BT, 1), (Row{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(row(batch.ids_BT, 2), (Row{S, 'a', 'b', 'c', 'd', E}));
  EXPECT_EQ(data->describe(),
            "3 records of 'text', 15 tokens (bytes), cut at 6 tokens: 19.0 % of the tokens are not used (a smaller "
            "--text-unit or --packing packed keeps them, and changes what a sample is), 1 empty records left out")
      << "4 of 21 with those that begin and end a text";
  EXPECT_EQ(open_dataset(folder.config(), 10, Task::lm)->describe(),
            "3 records of 'text', 15 tokens (bytes), cut at 10 tokens, 1 empty records left out");
}

// What is left out is padding alone.
TEST(TextDataset, BatchesArePaddedToAnyLengthThatHoldsTheirRecords) {
  const Folder folder;
  folder.put("a.jsonl",
             "{\"text\":\"abc\",\"label\":1}\n{\"text\":\"a\",\"label\":0}\n{\"text\":\"abcdefgh\",\"label\":0}\n");
  for (const auto task : {Task::lm, Task::classify}) {
    const auto data = open_dataset(folder.config(), 8, task);
    EXPECT_EQ(data->max_length(), 8);
    for (const auto& [record, length] : {std::pair<int64_t, int64_t>{0, 5}, {1, 3}, {2, 8}})
      EXPECT_EQ(data->length_of(record), length);
    const std::array<int64_t, 2> some{0, 1};
    const auto whole = data->batch(some);
    for (const int64_t t : {5, 6, 8}) {
      const auto cut = data->padded_batch(some, t);
      EXPECT_TRUE(cut.ids_BT.equal(whole.ids_BT.narrow(1, 0, t)));
      EXPECT_TRUE(cut.mask_BT.equal(whole.mask_BT.narrow(1, 0, t)));
      EXPECT_TRUE(cut.labels.equal(task == Task::lm ? whole.labels.narrow(1, 0, t) : whole.labels));
    }
    EXPECT_EQ(data->padded_batch({}, 5).ids_BT.sizes(), (at::IntArrayRef{0, 5}));
    EXPECT_EQ(message_of<UsageError>([&] { data->padded_batch(some, 4); }),
              "record 0 has 5 positions, more than the 4 that the batch is padded to; pad it to the longest of its "
              "records (length_of)");
    EXPECT_EQ(message_of<UsageError>([&] { data->padded_batch(some, 9); }),
              "a batch padded to 9 positions of texts that are cut at 8");
  }
  auto packed = folder.config();
  packed.packing = Packing::packed;
  EXPECT_EQ(open_dataset(packed, 8, Task::lm)->max_length(), 0) << "windows have one length";
}

// A classifier pools the last token: of every text, however long, that is the same one.
TEST(TextDataset, EveryRecordEndsWithEos) {
  const Folder folder;
  std::string lines;
  for (size_t length = 1; length < 12; ++length)
    lines += text("{\"text\":\"", std::string(length, 'a'), "\",\"label\":", length % 2, "}\n");
  folder.put("a.jsonl", lines);
  for (const int64_t t : {2, 3, 8}) {
    const auto data = open_dataset(folder.config(), t, Task::classify);
    const auto batch = data->batch(all_records(*data));
    const auto last = batch.mask_BT.sum(1, true) - 1;
    EXPECT_TRUE(batch.ids_BT.gather(1, last).eq(E).all().item<bool>()) << batch.ids_BT;
    EXPECT_EQ(batch.ids_BT.eq(E).sum().item<int64_t>(), data->size());
  }
}

TEST(TextDataset, ContentIsWhatABatchHasOfARecord) {
  const Folder folder;
  folder.put("a.jsonl",
             "{\"text\":\"abc\",\"label\":1}\n{\"text\":\"abc\",\"label\":0}\n{\"text\":\"abcdefgh\",\"label\":0}\n"
             "{\"text\":\"abcdefxy\",\"label\":0}\n");
  const auto contents = [&](Task task, Packing packing) {
    auto config = folder.config();
    config.packing = packing;
    const auto data = open_dataset(config, 6, task);
    std::vector<uint64_t> out;
    for (const auto record : all_records(*data)) out.push_back(data->content_of(record));
    return out;
  };
  const auto lm = contents(Task::lm, Packing::records);
  EXPECT_EQ(lm[0], lm[1]) << "the label is not used";
  EXPECT_NE(lm[0], lm[2]);
  EXPECT_EQ(lm[2], lm[3]) << "cut before they differ";
  const auto classified = contents(Task::classify, Packing::records);
  EXPECT_NE(classified[0], classified[1]);
  EXPECT_EQ(classified[2], classified[3]);
  const auto windows = contents(Task::lm, Packing::packed);
  ASSERT_EQ(windows.size(), 5u);  // targets abc E ab | c E abcd | efgh E a | bcdefx | y E
  EXPECT_EQ(std::set<uint64_t>(windows.begin(), windows.end()).size(), 5u);
}

TEST(TextDataset, NoRecordsMakeAnEmptyBatch) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"abc\",\"label\":1}\n{\"text\":\"def\",\"label\":0}");
  const auto lm = open_dataset(folder.config(), 6, Task::lm)->batch({});
  EXPECT_EQ(lm.samples(), 0);
  EXPECT_EQ(lm.ids_BT.sizes(), (at::IntArrayRef{0, 6}));
  EXPECT_EQ(lm.labels.sizes(), (at::IntArrayRef{0, 6}));
  EXPECT_EQ(open_dataset(folder.config(), 6, Task::classify)->batch({}).labels.sizes(), (at::IntArrayRef{0}));
}

TEST(TextDataset, UnknownRecordsAreRefused) {
  const Folder folder;
  folder.put("a.txt", "abc");
  const auto data = open_dataset(folder.config(), 6, Task::lm);
  for (const int64_t record : {-1, 1})
    EXPECT_EQ(message_of<UsageError>([&] { data->batch(std::array{record}); }), text("record ", record, " of 1"));
}

TEST(TextDataset, ClassesAreSorted) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"a\",\"label\":\"sea\"}\n{\"text\":\"b\",\"label\":\"10\"}\n");
  folder.put("b.json",
             "[{\"text\":\"c\",\"label\":9},{\"text\":\"d\",\"label\":\"air\"},{\"text\":\"e\",\"label\":10}]");
  const auto data = open_dataset(folder.config(), 4, Task::classify);
  EXPECT_EQ(data->classes(), (std::vector<std::string>{"9", "10", "air", "sea"}));
  const auto batch = data->batch(all_records(*data));
  EXPECT_TRUE(batch.labels.equal(at::tensor(Row{3, 1, 0, 2, 1})));
  EXPECT_EQ(row(batch.ids_BT, 3), (Row{S, 'd', E, P}));
}

// With stated classes no record decides what another one's label is, and no label is published that was not stated.
// The same tokenizer.json, and another token behind every text: other samples.
TEST(TextDataset, EndsOfTextsAreInTheFingerprint) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"a text\"}\n");
  const auto with = [&](const std::string& eos) {
    const Folder tokenizer;
    std::filesystem::copy(
        std::filesystem::path(std::getenv("SHADE_SOURCE")) / "tests/golden/tokenizer_qwen2/tokenizer.json",
        tokenizer.path() / "tokenizer.json");
    tokenizer.put("tokenizer_config.json", text(R"({"pad_token": "<|endoftext|>", "eos_token": ")", eos, R"("})"));
    auto config = folder.config();
    config.tokenizer = tokenizer.path().string();
    return open_dataset(config, 8, Task::lm)->fingerprint();
  };
  EXPECT_EQ(with("<|endoftext|>"), with("<|endoftext|>"));
  EXPECT_NE(with("<|endoftext|>"), with("<|im_end|>"));
}

TEST(TextDataset, StatedClassesAreTheClasses) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"a\",\"label\":\"sea\"}\n{\"text\":\"b\",\"label\":\"hill\"}\n");
  auto config = folder.config();
  config.classes = {"wood", "sea", "hill"};
  const auto data = open_dataset(config, 4, Task::classify);
  EXPECT_EQ(data->classes(), config.classes) << "in this order, also one that doesn't occur";
  EXPECT_TRUE(data->batch(all_records(*data)).labels.equal(at::tensor(Row{1, 2})));
  EXPECT_TRUE(open_dataset(config, 4, Task::lm)->classes().empty());

  config.classes = {"@" + folder.put("classes", "hill\r\n\nsea, deep\nsea\n").string()};
  const auto from_file = open_dataset(config, 4, Task::classify);
  EXPECT_EQ(from_file->classes(), (std::vector<std::string>{"hill", "sea, deep", "sea"}));
  EXPECT_TRUE(from_file->batch(all_records(*from_file)).labels.equal(at::tensor(Row{2, 0})));
  EXPECT_NE(from_file->fingerprint(), data->fingerprint());

  folder.put("b.jsonl", "{\"text\":\"c\",\"label\":\"aaa-john-doe\"}\n");
  EXPECT_EQ(
      message_of<UsageError>([&] { open_dataset(config, 4, Task::classify); }),
      text((folder.path() / "b.jsonl").string(),
           ":1: the data has the label 'aaa-john-doe', which is none of the 3 stated classes: 'hill', 'sea, deep', "
           "'sea'; correct the records, or state it too (--classes)"));
}

TEST(TextDataset, WrongClassesAreRefused) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n");
  const auto said = [&](const std::vector<std::string>& classes) {
    auto config = folder.config();
    config.classes = classes;
    return message_of<UsageError>([&] { open_dataset(config, 4, Task::classify); });
  };
  EXPECT_EQ(said({"x", "y", "x"}), "class 'x' is stated twice");
  EXPECT_NE(said({"x"}).find("expected at least 2"), std::string::npos);
  EXPECT_NE(said({"@" + (folder.path() / "gone").string()}).find("expected a file with a class per line"),
            std::string::npos);
}

// What was written over without a trace in size and time is other data all the same.
TEST(TextDataset, AnotherRecordIsAnotherFingerprint) {
  const Folder folder;
  const auto file = folder.put("a.jsonl", "{\"text\":\"abc\",\"label\":\"x\"}\n{\"text\":\"d\",\"label\":\"y\"}\n");
  const auto time = std::filesystem::last_write_time(file);
  const auto print = [&](const std::string& content, int64_t length = 6) {
    folder.put("a.jsonl", content);
    std::filesystem::last_write_time(file, time);
    std::filesystem::remove_all(folder.path() / ".shade");
    return open_dataset(folder.config(), length, Task::classify)->fingerprint();
  };
  const auto before = print("{\"text\":\"abc\",\"label\":\"x\"}\n{\"text\":\"d\",\"label\":\"y\"}\n");
  EXPECT_EQ(print("{\"text\":\"abc\",\"label\":\"x\"}\n{\"text\":\"d\",\"label\":\"y\"}\n"), before);
  EXPECT_NE(print("{\"text\":\"abd\",\"label\":\"x\"}\n{\"text\":\"d\",\"label\":\"y\"}\n"), before);
  EXPECT_NE(print("{\"text\":\"abc\",\"label\":\"y\"}\n{\"text\":\"d\",\"label\":\"x\"}\n"), before);
  EXPECT_NE(print("{\"text\":\"ab\",\"label\":\"x\"}\n{\"text\":\"cd\",\"label\":\"y\"}\n"), before);
  EXPECT_NE(print("{\"text\":\"abc\",\"label\":\"x\"}\n{\"text\":\"d\",\"label\":\"y\"}\n", 7), before);
  const Folder elsewhere;
  elsewhere.put("b.jsonl", "{\"text\":\"abc\",\"label\":\"x\"}\n{\"text\":\"d\",\"label\":\"y\"}\n");
  EXPECT_EQ(open_dataset(elsewhere.config(), 6, Task::classify)->fingerprint(), before) << "the same records";
}

TEST(TextDataset, ClassificationNeedsALabelEverywhere) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"a\",\"label\":\"x\"}\n\n{\"text\":\"b\"}\n");
  EXPECT_EQ(message_of<UsageError>([&] { open_dataset(folder.config(), 4, Task::classify); }),
            (folder.path() / "a.jsonl").string() + ":3: the record has no \"label\", which classification needs");
  folder.put("a.jsonl", "{\"text\":\"a\",\"label\":\"x\"}");
  EXPECT_EQ(message_of<UsageError>([&] { open_dataset(folder.config(), 4, Task::classify); }),
            "all records have the label 'x'; classification needs at least 2 classes");
  auto packed = folder.config();
  packed.packing = Packing::packed;
  EXPECT_EQ(message_of<UsageError>([&] { open_dataset(packed, 4, Task::classify); }),
            "a packed window holds several texts and has no class; classify with --packing records");
}

// What each position sees and must predict, written down record by record.
struct Stream {
  Row inputs, targets, records;
  void add(const std::string& words, int64_t record) {
    inputs.push_back(S);
    inputs.insert(inputs.end(), words.begin(), words.end());
    targets.insert(targets.end(), words.begin(), words.end());
    targets.push_back(E);
    records.insert(records.end(), words.size() + 1, record);
  }
};

// The windows from `first` on are the stream, cut.
void expect_cut(const Stream& stream, const TextDataset& data, int64_t first, Use use, bool share) {
  const auto t = data.options().seq_length, length = std::ssize(stream.inputs);
  ASSERT_EQ(data.windows(use), (length + t - 1) / t);
  std::vector<int64_t> windows(static_cast<size_t>(data.windows(use)));
  std::iota(windows.begin(), windows.end(), first);
  const auto batch = data.batch(windows);
  const auto padded = [&](const Row& row, int64_t blank) {
    auto out = at::full({std::ssize(windows) * t}, blank, at::kLong);
    out.narrow(0, 0, length).copy_(at::tensor(row));
    return out.view({-1, t});
  };
  auto inputs = padded(stream.inputs, P);
  if (!share) inputs.select(1, 0).fill_(S);
  EXPECT_TRUE(batch.ids_BT.equal(inputs)) << t;
  EXPECT_TRUE(batch.labels.equal(padded(stream.targets, I))) << t;
  EXPECT_EQ(batch.mask_BT.sum().item<int64_t>(), length);
  const auto records = padded(stream.records, -1);
  EXPECT_TRUE(batch.documents_BT.diff().ne(0).equal(records.diff().ne(0))) << "a border where another record begins";
  EXPECT_TRUE((batch.documents_BT.select(1, 0) == 0).all().item<bool>());
  EXPECT_TRUE((batch.documents_BT.diff() >= 0).all().item<bool>());
  const auto middle = std::ssize(windows) / 2;
  EXPECT_TRUE(data.batch(std::array{first + middle}).ids_BT[0].equal(batch.ids_BT[middle]));
}

TEST(TextDataset, PackedWindowsPredictEveryTokenOnce) {
  const Folder folder;
  // Lengths from 1 to 40 and more records than a stride, so that windows begin and end everywhere in a record.
  Stream all, training, held_out;
  std::string lines;
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < 3000; ++i) {
    const auto words = std::string(static_cast<size_t>(1 + i * 7 % 40), static_cast<char>('a' + i % 26));
    lines += words + "\n";
    const bool out = i < 2 || i % 100 == 50 || i % 100 == 51 || (i > 1000 && i < 1100) || i == 2999;
    if (out) chosen.push_back(i);
    all.add(words, i);
    (out ? held_out : training).add(words, i);
  }
  folder.put("a.txt", lines);
  auto config = folder.config();
  config.packing = Packing::packed;
  config.text_unit = TextUnit::line;
  for (const int64_t t : {2, 3, 17, 128, 100000}) {
    const auto data = open_dataset(config, t, Task::lm);
    EXPECT_EQ(data->windows(Use::held_out), 0);
    expect_cut(all, *data, 0, Use::training, true);
    EXPECT_NE(data->describe().find(text("packed into ", data->size(), " windows")), std::string::npos);
    const auto before = data->fingerprint();
    for (const bool share : {true, false}) {
      data->pack({.held_out = chosen, .share_tokens = share});
      EXPECT_NE(data->fingerprint(), before);
      EXPECT_EQ(data->unit(), share ? SampleUnit::overlapping_window : SampleUnit::window);
      expect_cut(training, *data, 0, Use::training, share);
      expect_cut(held_out, *data, data->windows(Use::training), Use::held_out, share);
    }
  }
}

// Qwen2 has no bos: its eos begins a text, too.
TEST(TextDataset, PackedTextsWithoutBosBeginWithEos) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"one two\"}\n{\"text\":\"three\"}\n");
  auto config = folder.config();
  config.tokenizer = std::string(std::getenv("SHADE_SOURCE")) + "/tests/golden/tokenizer_qwen2";
  EXPECT_EQ(open_dataset(config, 32, Task::lm)->unit(), SampleUnit::record);
  const auto records = open_dataset(config, 32, Task::lm)->batch(std::array<int64_t, 2>{0, 1});
  Row inputs, targets;
  for (const int64_t i : {0, 1}) {
    auto ids = row(records.ids_BT, i);
    ids.resize(static_cast<size_t>(records.mask_BT[i].sum().item<int64_t>()));  // x1 .. xn eos
    inputs.push_back(ids.back());
    inputs.insert(inputs.end(), ids.begin(), ids.end() - 1);
    targets.insert(targets.end(), ids.begin(), ids.end());
  }
  config.packing = Packing::packed;
  const auto packed = open_dataset(config, std::ssize(inputs), Task::lm)->batch(std::array<int64_t, 1>{0});
  EXPECT_EQ(row(packed.ids_BT, 0), inputs);
  EXPECT_EQ(row(packed.labels, 0), targets);
}

TEST(TextDataset, HeldOutRecordsAreNumbersInAscendingOrder) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"d\"}\n");
  auto config = folder.config();
  config.packing = Packing::packed;
  const auto data = open_dataset(config, 4, Task::lm);
  for (const auto& records : std::vector<Row>{{1, 0}, {1, 1}, {2}, {-1}})
    EXPECT_NE(message_of<UsageError>([&] { data->pack({.held_out = records}); }).find("ascending"), std::string::npos);
}

TEST(TextDataset, ThreadsReadAtOnce) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += std::string(static_cast<size_t>(1 + i % 30), 'x') + "\n";
  folder.put("a.txt", lines);
  auto config = folder.config();
  config.text_unit = TextUnit::line;
  const auto data = open_dataset(config, 16, Task::lm);
  const auto expected = data->batch(all_records(*data)).ids_BT;
  std::vector<std::thread> threads;
  std::atomic<int> equal = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { equal += data->batch(all_records(*data)).ids_BT.equal(expected) ? 1 : 0; });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 4);
}

TEST(TextDataset, AFolderMustBeSet) {
  EXPECT_EQ(message_of<UsageError>([] { open_dataset({}, 8, Task::lm); }), "no data; set --data-folder");
  const Folder folder;
  folder.put("a.txt", "abc");
  EXPECT_EQ(message_of<UsageError>([&] { open_dataset(folder.config(), 1, Task::lm); }),
            "a text of 1 tokens has nothing to predict; expected a length of at least 2");
}

}  // namespace
}  // namespace shade::data
