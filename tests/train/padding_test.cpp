// Texts of unequal lengths: padded to the longest of their micro-batch or all to one length, the steps are the same.
#include <cmath>

#include "tests/data/folder.h"
#include "tests/io/scratch.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

// Of 3 to 60 bytes, mostly short.
void put_texts(const data::Folder& folder) {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += text("{\"text\": \"", i * i * 7919 % 1000, std::string(static_cast<size_t>(i * 37 % 11), 'a'),
                  i % 7 == 0 ? std::string(45, 'z') : "", "\", \"label\": \"", i % 2 == 0 ? "even" : "odd", "\"}\n");
  folder.put("a.jsonl", lines);
}

const Words kPrivate{{"dp.dp", "auto"}, {"dp.sigma", "0.7"}, {"dp.noise_seed", "3"}, {"dp.delta", "1e-3"}};
const Words kPlain{{"dp.dp", "none"}};

Words words(const data::Folder& folder, std::initializer_list<Words> more) {
  Words out{{"data.data_folder", folder.path().string()},
            {"model.vocab_size", "260"},
            {"data.classes", "even,odd"},
            {"train.steps", "4"},
            {"train.batch_size", "16"},
            {"train.seq_length", "64"},
            {"train.micro_batch", "4"},
            {"train.eval_rate", "0.15"},
            {"optim.lr", "1e-2"}};
  for (const auto& some : more) out.insert(out.end(), some.begin(), some.end());
  return out;
}

Trained trained(int ranks, const Words& words) {
  const io::Scratch run;
  return train_in(run.path(), ranks, words);
}

struct Distance {
  double losses = 0, weights = 0, evaluation = 0;
};
Distance between(const Trained& a, const Trained& b) {
  Distance out{.weights = distance(a, b),
               .evaluation = std::abs(a.result.evaluation->loss - b.result.evaluation->loss)};
  const auto x = a.losses(), y = b.losses();
  EXPECT_EQ(x.size(), 4u);
  EXPECT_EQ(y.size(), 4u);
  for (size_t i = 0; i < x.size(); ++i) out.losses = std::max(out.losses, std::abs(x[i] - y[i]));
  return out;
}

TEST(Padding, ChangesRoundingAlone) {
  const data::Folder folder;
  put_texts(folder);
  for (const auto& kind : {kPrivate, kPlain})
    for (const std::string task : {"lm", "classify"}) {
      const auto with = [&](const Words& more) { return words(folder, {kind, {{"model.task", task}}, more}); };
      const auto wanted = trained(1, with({{"train.padding", "max_length"}}));
      EXPECT_EQ(wanted.result.padded_tokens % 64, 0);
      for (const auto& [ranks, shard, micro_batch] :
           {std::tuple{1, "none", "4"}, {1, "none", "auto"}, {2, "zero3", "4"}, {4, "zero2", "1"}}) {
        const auto found = trained(ranks, with({{"shard.shard", shard}, {"train.micro_batch", micro_batch}}));
        const auto what = text(kind == kPrivate ? "private " : "plain ", task, " on ", ranks, " ", micro_batch);
        const auto gap = between(found, wanted);
        EXPECT_LT(gap.losses, 1e-4) << what;
        EXPECT_LT(gap.weights, 1e-4) << what;
        EXPECT_LT(gap.evaluation, 1e-4) << what;
        EXPECT_EQ(found.result.tokens, wanted.result.tokens) << what;
        EXPECT_GT(found.result.padded_tokens, found.result.tokens) << what;
        // Private micro-batches are filled up, at each length.
        EXPECT_LT((kind == kPrivate ? 1 : 2) * found.result.padded_tokens, wanted.result.padded_tokens) << what;
      }
    }
}

// Blank samples fill up every length of the grid; how each text is rounded differs from one length to another.
TEST(Padding, OfPrivateStepsInBf16IsOnAGrid) {
  const data::Folder folder;
  put_texts(folder);
  const auto with = [&](const Words& more) {
    return words(folder, {kPrivate, {{"model.task", "lm"}, {"model.dtype", "bf16"}}, more});
  };
  const auto wanted = trained(1, with({{"train.padding", "max_length"}}));
  for (const auto& [ranks, method] : {std::pair{1, "auto"}, {2, "auto"}, {1, "streaming"}, {1, "materialize"}}) {
    const auto found = trained(ranks, with({{"dp.dp", method}, {"train.micro_batch", ranks == 1 ? "2" : "1"}}));
    EXPECT_LT(between(found, wanted).losses, 0.03) << ranks << method;
    EXPECT_LT(2 * found.result.padded_tokens, wanted.result.padded_tokens) << ranks << method;
  }
}

TEST(Padding, IsReportedBesideTokens) {
  const data::Folder folder;
  put_texts(folder);
  const auto run = trained(1, words(folder, {kPlain, {{"model.task", "lm"}}}));
  int64_t tokens = 0, padded = 0;
  for (const auto& line : run.metrics) {
    if (!line.contains("step_ms")) continue;
    tokens += line["tokens"].get<int64_t>();
    padded += line["padded_tokens"].get<int64_t>();
    const auto speed = [&](const char* key) { return line[key].get<double>() * line["step_ms"].get<double>() / 1e3; };
    EXPECT_NEAR(speed("tokens_per_second"), line["tokens"].get<double>(), 1e-6);
    EXPECT_NEAR(speed("padded_tokens_per_second"), line["padded_tokens"].get<double>(), 1e-6);
    EXPECT_LT(line["mfu"].get<double>(), line["padded_mfu"].get<double>());
  }
  EXPECT_EQ(tokens, run.result.tokens);
  EXPECT_EQ(padded, run.result.padded_tokens);
  EXPECT_GT(run.result.took.count(), 0);
}

}  // namespace
}  // namespace shade::train
