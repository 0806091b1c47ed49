// Packed windows: as if each document were run alone, and no document both trained on and held out.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <numeric>
#include <set>

#include "shade/models/registry.h"
#include "shade/train/feed/records.h"
#include "tests/data/folder.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

constexpr uint64_t kSeed = 4;

void put_four_texts(const data::Folder& folder) {
  folder.put("a.jsonl",
             "{\"text\":\"the sea\"}\n{\"text\":\"a\"}\n{\"text\":\"hills and woods\"}\n{\"text\":\"end\"}\n");
}

nn::Batch all_of(const data::Folder& folder, data::Packing packing, int64_t length) {
  auto config = folder.config();
  config.packing = packing;
  const auto texts = data::open_dataset(config, length, data::Task::lm);
  std::vector<int64_t> records(static_cast<size_t>(texts->size()));
  std::iota(records.begin(), records.end(), 0);
  return texts->batch(records);
}

struct Summed {
  double loss = 0;
  double tokens = 0;
  std::vector<at::Tensor> gradients;
};

// The loss and its gradient, summed over the tokens of the batch: one sample at a time, or all at once.
Summed summed(const nn::Batch& batch, const models::ModelOptions& options, bool alone) {
  models::SizeOverrides sizes;
  sizes.vocab_size = 260;
  const auto model = models::make_model("llama-nano", sizes, options);
  nn::bind_all(model->parameters(), at::kFloat, kSeed);
  nn::PlainGradients gradients;
  model->parameters().wiring.tap = &gradients;
  Summed out;
  const auto add = [&](const nn::Batch& part) {
    const auto losses = model->losses(part);
    out.loss += losses.sum().item<double>();
    out.tokens += model->loss_tokens(part).sum().item<double>();
    torch::autograd::backward({losses.sum()}, {});
  };
  if (!alone) add(batch);
  for (int64_t i = 0; alone && i < batch.samples(); ++i) {
    const auto length = batch.mask_BT[i].sum().item<int64_t>();  // without padding, too
    add(batch.rows(i, 1).each([&](const at::Tensor& tensor) { return tensor.narrow(1, 0, length); }));
  }
  for (auto& weight : model->parameters().weights()) out.gradients.push_back(gradients.of(weight).clone());
  return out;
}

double distance(const Summed& a, const Summed& b) {
  double gap = 0, size = 0;
  for (size_t i = 0; i < a.gradients.size(); ++i) {
    gap += (a.gradients[i] - b.gradients[i]).to(at::kDouble).square().sum().item<double>();
    size += b.gradients[i].to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(gap / size);
}

TEST(Packed, AWindowIsItsDocumentsOneByOne) {
  const data::Folder folder;
  put_four_texts(folder);
  const auto window = all_of(folder, data::Packing::packed, 32);
  const auto records = all_of(folder, data::Packing::records, 20);
  ASSERT_EQ(window.samples(), 1) << "with two positions of padding";
  for (const auto kernel : {nn::AttentionKernel::flash, nn::AttentionKernel::standard})
    for (const auto again : {models::Checkpointing::none, models::Checkpointing::block}) {
      const models::ModelOptions options{
          .task = models::Task::lm, .attention = kernel, .checkpointing = again, .loss_mean = models::LossMean::token};
      const auto packed = summed(window, options, /*alone=*/false), alone = summed(records, options, /*alone=*/true);
      EXPECT_EQ(packed.tokens, 7 + 1 + 15 + 3 + 4) << "every token and every eos";
      EXPECT_EQ(alone.tokens, packed.tokens);
      EXPECT_NEAR(packed.loss / alone.loss, 1, 1e-6) << to_string(kernel);
      EXPECT_LT(distance(packed, alone), 1e-6) << to_string(kernel) << " " << to_string(again);
    }
}

// Cut into windows of 7: parts of a document don't see the part before, but its last token; several samples at once.
TEST(Packed, WindowsOfABatchDontMix) {
  const data::Folder folder;
  put_four_texts(folder);
  const auto windows = all_of(folder, data::Packing::packed, 7);
  ASSERT_EQ(windows.samples(), 5);
  for (const auto kernel : {nn::AttentionKernel::flash, nn::AttentionKernel::standard}) {
    const models::ModelOptions options{
        .task = models::Task::lm, .attention = kernel, .loss_mean = models::LossMean::token};
    const auto together = summed(windows, options, false), alone = summed(windows, options, true);
    EXPECT_EQ(together.tokens, 30) << "also the first after a border";
    EXPECT_NEAR(together.loss / alone.loss, 1, 1e-6);
    EXPECT_LT(distance(together, alone), 1e-6);
  }
}

Words on(const data::Folder& folder, const Words& more) {
  Words out{{"data.data_folder", folder.path().string()},
            {"data.packing", "packed"},
            {"model.vocab_size", "260"},
            {"model.task", "lm"},
            {"train.steps", "2"},
            {"train.batch_size", "4"},
            {"train.micro_batch", "2"},
            {"train.seq_length", "10"},
            {"train.eval_rate", "0.3"},
            {"train.peak_gflops", "100"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Each text is of one letter.
void put_letters(const data::Folder& folder) {
  std::string lines;
  for (int i = 0; i < 26; ++i)
    lines += text("{\"text\": \"", std::string(static_cast<size_t>(5 + i % 11), static_cast<char>('a' + i)), "\"}\n");
  folder.put("a.jsonl", lines);
}

std::set<int64_t> letters_of(const data::Dataset& texts, const std::vector<int64_t>& windows) {
  std::set<int64_t> out;
  const auto batch = texts.batch(windows);
  for (const auto& field : {batch.ids_BT, batch.labels})
    for (const auto token : std::span(field.data_ptr<int64_t>(), static_cast<size_t>(field.numel())))
      if (token >= 'a' && token <= 'z') out.insert(token);
  return out;
}

// What a run trains on and evaluates, as windows.
struct Divided {
  std::unique_ptr<const data::Dataset> texts;
  std::vector<int64_t> training, held_out;
};

Divided divide(const data::Folder& folder, const Words& more) {
  Divided out;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    set_words(config, on(folder, more));
    recipe = *resolve(recipe, config.stated());
    const auto model = models::make_model("llama-nano", recipe.sizes, recipe.model.options());
    const auto group = world.group("test");
    out.texts = open_records(recipe, *model, world.place(), group);
    const auto split = split_of(recipe, *out.texts);
    for (int64_t i = 0; i < split.training(); ++i) out.training.push_back(split.training_record(i));
    out.held_out = split.evaluation_records();
  });
  return out;
}

TEST(Packed, NoDocumentIsTrainedOnAndHeldOut) {
  const data::Folder folder;
  put_letters(folder);
  const Words by_number{{"train.eval_rate", "0"}, {"train.eval_records", "8"}};
  for (const auto& words : {by_number, Words{}}) {
    const auto all = divide(folder, words);
    const auto trained = letters_of(*all.texts, all.training), held_out = letters_of(*all.texts, all.held_out);
    EXPECT_EQ(trained.size() + held_out.size(), 26u);
    EXPECT_GE(held_out.size(), 3u);
    if (words == by_number) EXPECT_EQ(held_out.size(), 8u);
    for (const auto letter : held_out) EXPECT_FALSE(trained.contains(letter)) << static_cast<char>(letter);
  }
}

// The unit of privacy is a window: another one must neither share its tokens nor change its use.
TEST(Packed, PrivateWindowsStandAlone) {
  const Words words{{"dp.dp", "auto"}, {"dp.privacy_unit", "window"}};
  std::string many;
  for (int i = 0; i < 2000; ++i) many += text(i * 7919 % 10007, " ");
  const auto held_out = [&](const std::string& end) {
    const data::Folder folder;
    folder.put("a.txt", many.substr(0, 6000) + end);
    const auto all = divide(folder, words);
    const auto first = all.texts->batch(all.training).ids_BT.select(1, 0);
    EXPECT_TRUE(first.eq(data::ByteTokenizer::kBos).all().item<bool>()) << "no token is in two windows";
    return all.held_out;
  };
  const auto without = held_out(""), with = held_out("ten more  ");
  ASSERT_GT(without.size(), 2u);
  for (const auto window : without) EXPECT_EQ(std::count(with.begin(), with.end(), window), 1) << window;
  EXPECT_LE(with.size(), without.size() + 2) << "one window is new, and the last one has other tokens";
}

TEST(Packed, TrainsAndEvaluatesTheSameOnTwoRanks) {
  const data::Folder folder;
  put_letters(folder);
  for (const auto& kind : {Words{}, Words{{"dp.dp", "auto"},
                                          {"dp.privacy_unit", "window"},
                                          {"dp.noise_seed", "3"},
                                          {"dp.sigma", "1"},
                                          {"dp.delta", "1e-3"}}}) {
    const io::Scratch one, two;
    const auto alone = train_in(one.path(), 1, on(folder, kind));
    auto words = on(folder, kind);
    words.emplace_back("shard.shard", "zero3");
    const auto ranks = train_in(two.path(), 2, words);
    EXPECT_LT(distance(ranks, alone), 1e-5);
    EXPECT_NEAR(ranks.result.evaluation->loss, alone.result.evaluation->loss, 1e-5);
  }
}

// A window protects less than a record: more steps of windows would undo what those of records have.
TEST(Packed, AProtectedRunKeepsItsUnit) {
  const data::Folder folder;
  put_letters(folder);
  const io::Scratch run;
  const Words both{{"dp.dp", "auto"}, {"dp.sigma", "1"}, {"dp.delta", "1e-3"}};
  auto records = on(folder, both), windows = on(folder, both);
  records.insert(records.end(), {{"data.packing", "records"}, {"train.steps", "1"}});
  windows.insert(windows.end(), {{"dp.privacy_unit", "window"}, {"train.steps", "2"}});
  EXPECT_TRUE(train_in(run.path(), 1, records).result.spent);
  const auto said = refused(run.path(), windows);
  EXPECT_NE(said.find("they protect one window, those one record"), std::string::npos) << said;
}

// Windows of another length are other units, and so are a text's lines and its paragraphs: their epsilons don't add up.
TEST(Packed, OtherWindowsOrRecordsOfTheSameFilesAreOtherUnits) {
  const data::Folder folder;
  put_letters(folder);
  const auto changed = [&](const Words& first, const Words& then) {
    const io::Scratch run;
    auto words = on(folder, {{"dp.dp", "auto"}, {"dp.sigma", "1"}, {"dp.delta", "1e-3"}});
    words.insert(words.end(), first.begin(), first.end());
    words.emplace_back("train.steps", "1");
    EXPECT_TRUE(train_in(run.path(), 1, words).result.spent);
    words.insert(words.end(), then.begin(), then.end());
    words.emplace_back("train.steps", "2");
    return refused(run.path(), words);
  };
  const auto longer =
      changed({{"dp.privacy_unit", "window"}, {"train.seq_length", "16"}}, {{"train.seq_length", "12"}});
  EXPECT_NE(longer.find("they protect one window by '12 tokens', those one window by '16 tokens'"), std::string::npos)
      << longer;
  const auto lines = changed({{"data.packing", "records"}}, {{"data.text_unit", "line"}});
  EXPECT_NE(lines.find("they protect one record by 'line', those one record"), std::string::npos) << lines;
}

TEST(Packed, OneLargeTextCantBeDivided) {
  const data::Folder folder;
  folder.put("a.txt", std::string(1000, 'x'));
  const io::Scratch run;
  EXPECT_EQ(refused(run.path(), on(folder, {{"train.eval_rate", "0"}, {"train.eval_records", "1"}})),
            "eval_records is 1 of 1 records, which packed texts are held out by; expected at most half of them. Choose "
            "smaller records (--text-unit paragraph or line), or evaluate on a --test-folder");
}

}  // namespace
}  // namespace shade::train
