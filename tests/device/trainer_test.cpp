// Training runs on the emulated device against the same runs on the CPU: with noise, stopped and continued, exported.
#include "shade/io/weight_folder.h"
#include "tests/io/scratch.h"
#include "tests/support/device/device.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

using comm::BackendKind;
using io::Scratch;

// Plain descent: Adam turns the rounding of small gradients into whole steps.
const Words kSmall{{"model.task", "lm"},       {"train.steps", "6"},    {"train.batch_size", "8"},
                   {"train.seq_length", "12"}, {"train.records", "40"}, {"train.micro_batch", "4"},
                   {"optim.optimizer", "sgd"}, {"optim.lr", "0.1"},     {"train.eval_rate", "0.1"},
                   {"train.eval_every", "3"}};
const Words kPrivate{{"dp.dp", "auto"}, {"dp.sigma", "0.7"}, {"dp.noise_seed", "3"}, {"dp.delta", "1e-3"}};
const Words kPlain{{"dp.sampler", "shuffled"}, {"optim.grad_clip", "1"}};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class DeviceTraining : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  Words words(const Words& more) const {
    return with(with(kSmall, {{"shard.shard", ranks() == 1 ? "none" : ranks() == 2 ? "zero3" : "hsdp"}}), more);
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceTraining, testing::Values(1, 2, 4));

TEST_P(DeviceTraining, IsTheCpus) {
  for (const auto& kind : {kPrivate, kPlain, with(kPrivate, {{"model.lora_rank", "2"}}),
                           with(kPrivate, {{"shard.offload", "true"}, {"train.micro_batch", "auto"}})}) {
    const Scratch there, here;
    const auto wanted = train_in(there.path(), ranks(), words(kind));
    const auto found = train_in(here.path(), ranks(), words(kind), {}, BackendKind::nccl);
    ASSERT_EQ(found.losses().size(), 6u);
    ASSERT_EQ(wanted.losses().size(), 6u);
    for (size_t step = 0; step < 6; ++step)
      EXPECT_NEAR(found.losses()[step], wanted.losses()[step], 1e-6 * wanted.losses()[step]) << "step " << step;
    EXPECT_LT(distance(found, wanted), kind == kPlain ? 1e-6 : 1e-5);  // Gram norms differ by what rounding can do
  }
}

// Without noise: on a device a continued private run is a new incarnation, with noise of its own.
TEST_P(DeviceTraining, ContinuesWhereItStopped) {
  const Scratch whole, parts;
  const auto wanted = train_in(whole.path(), ranks(), words(kPlain), {}, BackendKind::nccl);
  for (int part = 0; part < 2; ++part) {
    const auto stopped =
        train_in(parts.path(), ranks(), words(kPlain), [](int64_t made) { return made == 1; }, BackendKind::nccl);
    EXPECT_EQ(stopped.result.steps, 2 * (part + 1));
  }
  const auto found = train_in(parts.path(), ranks(), words(kPlain), {}, BackendKind::nccl);
  EXPECT_EQ(found.result.steps, 6);
  EXPECT_LT(distance(found, wanted), 1e-6);
}

TEST_P(DeviceTraining, APrivateRunThatContinuesDrawsOtherNoise) {
  const Scratch whole, parts;
  const auto wanted = train_in(whole.path(), ranks(), words(kPrivate), {}, BackendKind::nccl);
  train_in(parts.path(), ranks(), words(kPrivate), [](int64_t made) { return made == 1; }, BackendKind::nccl);
  const auto found = train_in(parts.path(), ranks(), words(kPrivate), {}, BackendKind::nccl);
  EXPECT_EQ(found.result.steps, 6);
  EXPECT_GT(distance(found, wanted), 1e-3);
}

TEST_P(DeviceTraining, ExportsItsWeights) {
  const Scratch here;
  const auto folder = (here.path() / "export").string();
  const auto found = train_in(here.path() / "run", ranks(), words(with(kPrivate, {{"train.export_folder", folder}})),
                              {}, BackendKind::nccl);
  const io::WeightFolder exported(folder);
  const auto table = exported.tensor("model.embed_tokens.weight").clone();
  EXPECT_TRUE(std::any_of(found.weights.begin(), found.weights.end(),
                          [&](const at::Tensor& weight) { return at::equal(weight, table); }));
}

}  // namespace
}  // namespace shade::train
