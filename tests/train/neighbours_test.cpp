// Data sets that differ in one record, trained by the whole program: |sum(D + x) - sum(D)| <= C, wherever x is put.
//
// All records in every batch, no noise, one step of plain descent: the weights move by the learning rate times the
// clipped sum over the divisor.
#include <cmath>

#include "tests/data/folder.h"
#include "tests/data/image_files.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

constexpr double kDivisor = 8, kNorm = 1.0 / 64, kRate = 64;  // every sample is clipped

Words one_step(const data::Folder& folder, const Words& more) {
  Words out{{"data.data_folder", folder.path().string()},
            {"dp.dp", "auto"},
            {"dp.sigma", "0"},
            {"dp.sample_rate", "1"},
            {"dp.max_grad_norm", text(kNorm)},
            {"dp.noise_seed", "3"},
            {"dp.delta", "1e-3"},
            {"optim.optimizer", "sgd"},
            {"optim.lr", text(kRate)},
            {"optim.weight_decay", "0"},
            {"train.steps", "1"},
            {"train.batch_size", text(kDivisor)},
            {"train.micro_batch", "16"},
            {"train.eval_rate", "0.3"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// In units of C.
double moved(const Trained& with, const Trained& without) {
  double gap = 0;
  for (size_t i = 0; i < with.weights.size(); ++i)
    gap += (with.weights[i] - without.weights[i]).to(at::kDouble).square().sum().item<double>();
  return std::sqrt(gap) * kDivisor / (kNorm * kRate);
}

// The weights themselves are rounded to fp32.
constexpr double kRounded = 1 + 1e-3;

TEST(Neighbours, ATextMoreMovesTheSumByAtMostC) {
  const auto trained = [](int64_t at) {
    const data::Folder folder;
    const io::Scratch run;
    std::string lines;
    for (int64_t i = 0; i < 40; ++i) {
      if (i == at) lines += "{\"text\": \"one more\"}\n";
      lines += text("{\"text\": \"", i * i * 7919 % 1000, " sheep\"}\n");
    }
    folder.put("a.jsonl", lines + (at == 40 ? "{\"text\": \"one more\"}\n" : ""));
    const Words words{{"model.vocab_size", "260"}, {"model.task", "lm"}, {"train.seq_length", "12"}};
    return train_in(run.path(), 1, one_step(folder, words));
  };
  const auto without = trained(-1);
  EXPECT_GT(without.result.evaluation->records, 0);
  for (const int64_t at : {0, 20, 40}) EXPECT_LE(moved(trained(at), without), kRounded) << "at " << at;
}

// The added text is longer than all others, or shorter: how those are padded and rounded doesn't follow from it.
TEST(Neighbours, ATextOfAnotherLengthMovesTheSumByAtMostC) {
  const auto trained = [](const std::string& added, const Words& more) {
    const data::Folder folder;
    const io::Scratch run;
    std::string lines = added.empty() ? "" : text("{\"text\": \"", added, "\"}\n");
    for (int64_t i = 0; i < 40; ++i)
      lines += text("{\"text\": \"", i * i * 7919 % 1000, std::string(static_cast<size_t>(i * i % 25), 'a'), "\"}\n");
    folder.put("a.jsonl", lines);
    Words words{{"model.vocab_size", "260"}, {"model.task", "lm"}, {"train.seq_length", "80"}};
    words.insert(words.end(), more.begin(), more.end());
    return train_in(run.path(), 1, one_step(folder, words));
  };
  for (const std::string dtype : {"fp32", "bf16"})
    for (const std::string micro_batch : {"2", "16"}) {
      const Words more{{"model.dtype", dtype}, {"train.micro_batch", micro_batch}, {"train.eval_rate", "0"}};
      const auto without = trained("", more);
      for (const auto& added : {std::string("x"), std::string(30, 'y'), std::string(75, 'z')}) {
        const auto share = moved(trained(added, more), without);
        EXPECT_LE(share, kRounded) << dtype << " " << micro_batch << " " << added;
        EXPECT_GT(share, 0.9) << dtype << " " << micro_batch << " " << added << " is clipped";
      }
    }
}

// A user with more records than one step uses, whose name may be held out or not.
TEST(Neighbours, AUserMoreMovesTheSumByAtMostC) {
  const auto trained = [](const std::string& added, int64_t at) {
    const data::Folder folder;
    const io::Scratch run;
    std::string lines;
    for (int64_t i = 0; i < 90; ++i) {
      if (i % 15 == at) lines += text(R"({"text": "one more )", i, R"(", "from": ")", added, "\"}\n");
      lines += text(R"({"text": ")", i * i * 7919 % 1000, R"( sheep", "from": ")", i * 7 % 40, "\"}\n");
    }
    folder.put("a.jsonl", lines);
    const Words words{{"model.vocab_size", "260"}, {"model.task", "lm"},        {"train.seq_length", "12"},
                      {"data.user_field", "from"}, {"dp.privacy_unit", "user"}, {"dp.max_records_per_user", "2"},
                      {"train.eval_rate", "0.1"}};
    return train_in(run.path(), 1, one_step(folder, words));
  };
  const auto without = trained("", -1);
  EXPECT_GT(without.result.evaluation->records, 0);
  double most = 0;
  for (const auto* added : {"zoe", "adam", "eve"})
    for (const int64_t at : {0, 14}) {
      const auto far = moved(trained(added, at), without);
      EXPECT_LE(far, kRounded) << added << " at " << at;
      most = std::max(most, far);
    }
  EXPECT_GT(most, 0.9) << "nobody was trained on";
}

void expect_images_apart(const Words& words) {
  const auto trained = [&](const std::string& added) {
    const data::Folder folder;
    const io::Scratch run;
    const auto put = [&](const std::string& name, int i) {
      auto pixels = data::gradient(16, 16, 3);
      for (size_t at = 0; at < pixels.size(); ++at) pixels[at] = static_cast<unsigned char>(pixels[at] * i % 251);
      folder.put(name, data::png(16, 16, PNG_FORMAT_RGB, pixels));
    };
    for (int i = 1; i <= 30; ++i) put(text(i % 2 == 0 ? "bright/" : "dark/", i, ".png"), i);
    if (!added.empty()) put(added, 77);
    return train_in(run.path(), 1, one_step(folder, words));
  };
  const auto without = trained("");
  EXPECT_GT(without.result.evaluation->records, 0);
  for (const auto* added : {"bright/!.png", "bright/x.png", "dark/x.png"})
    EXPECT_LE(moved(trained(added), without), kRounded) << added;
}

TEST(Neighbours, AnImageMoreMovesTheSumByAtMostC) {
  const Words words{{"model.model", "dit-nano"}, {"data.classes", "bright,dark"}};
  expect_images_apart(words);
  auto published = words;  // each image's flip, and the bound of its variance, are its own
  published.insert(published.end(),
                   {{"data.flip", "true"}, {"model.learn_sigma", "true"}, {"model.positions", "sincos"}});
  expect_images_apart(published);
}

}  // namespace
}  // namespace shade::train
