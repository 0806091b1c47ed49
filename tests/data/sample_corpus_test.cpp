#include "shade/data/sample_corpus.h"

#include <cmath>
#include <map>

#include "folder.h"
#include "shade/hash/digest.h"

namespace shade::data {
namespace {

// Nats a byte takes if the `order` bytes before it are known, from counts of the text itself.
double entropy(const std::string& words, size_t order) {
  std::map<std::string, std::map<char, double>> counts;
  for (size_t i = order; i < words.size(); ++i) ++counts[words.substr(i - order, order)][words[i]];
  double sum = 0;
  for (const auto& [context, next] : counts) {
    double all = 0;
    for (const auto& [byte, count] : next) all += count;
    for (const auto& [byte, count] : next) sum -= count * std::log(count / all);
  }
  return sum / static_cast<double>(words.size() - order);
}

TEST(SampleCorpus, IsTheSameForTheSameSeed) {
  EXPECT_EQ(sample_text(1, 5).text, sample_text(1, 5).text);
  EXPECT_NE(sample_text(1, 5).text, sample_text(1, 6).text);
  EXPECT_NE(sample_text(1, 5).text, sample_text(2, 5).text);
  std::string all;
  for (uint64_t n = 0; n < 1000; ++n) all += sample_text(7, n).text;
  EXPECT_EQ(hash::to_hex(hash::digest_of(all)),
            "59a5c92eaf3c96455212d44d5bb913ba446153585a1029de831a39c0d29164d4");  // on every machine
}

TEST(SampleCorpus, HasSomethingToLearn) {
  std::string all;
  for (uint64_t n = 0; n < 3000; ++n) all += sample_text(1, n).text + "\n";
  EXPECT_GT(all.size(), 500'000U);
  const auto unigram = entropy(all, 0);
  EXPECT_GT(unigram, 2.7);
  EXPECT_LT(entropy(all, 4), unigram / 4);
}

TEST(SampleCorpus, FilesOfAllKindsWithTopics) {
  const Folder folder;
  const auto corpus = folder.path() / "corpus";
  write_sample_corpus(corpus, KiB(64), 3);
  int64_t bytes = 0;
  std::map<std::string, int> endings;
  for (const auto& file : find_text_files(corpus)) ++endings[file.path.extension()];
  EXPECT_EQ(endings[".jsonl"], 1);
  EXPECT_EQ(endings[".json"], 1);
  EXPECT_GT(endings[".txt"], 5);
  auto config = folder.config();
  config.data_folder = corpus.string();
  const auto all = open_dataset(config, 256, Task::lm);
  bytes = all->store().tokens();
  EXPECT_NEAR(static_cast<double>(bytes), 65536, 3000);
  config.data_folder = (corpus / "labelled").string();
  auto topics = sample_topics();
  std::sort(topics.begin(), topics.end());
  EXPECT_EQ(open_dataset(config, 256, Task::classify)->classes(), topics);
  EXPECT_NE(message_of<UsageError>([&] { write_sample_corpus(corpus, KiB(1), 1); }).find("is not empty"),
            std::string::npos);
}

TEST(SampleCorpus, TheOneOfTheExamplesIsWhatTheGeneratorWrites) {
  const Folder folder;
  write_sample_corpus(folder.path() / "data", Bytes{6000}, 1);
  const auto kept = std::filesystem::path(std::getenv("SHADE_SOURCE")) / "examples/data";
  const auto files = find_text_files(kept), made = find_text_files(folder.path() / "data");
  ASSERT_EQ(files.size(), made.size());
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ(files[i].name, made[i].name);
    EXPECT_EQ(io::content(files[i].path), io::content(made[i].path));
  }
}

}  // namespace
}  // namespace shade::data
