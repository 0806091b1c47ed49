// The trainer on a folder of images: recipes/dit_nano.toml on real PNG and JPEG files.
#include <cmath>
#include <set>

#include "shade/base/json.h"
#include "shade/io/weight_folder.h"
#include "tests/data/folder.h"
#include "tests/data/image_files.h"
#include "tests/support/process.h"
#include "tests/train/remains.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

// Bright and dark pictures, each with its own pattern, in both formats.
class Pictures : public data::Folder {
 public:
  Pictures() {
    for (int i = 0; i < 40; ++i) {
      const int width = 20 + i % 5, height = 18 + i % 7;
      auto pixels = data::gradient(width, height, 3);
      for (size_t at = 0; at < pixels.size(); ++at)
        pixels[at] =
            static_cast<unsigned char>(pixels[at] / 4 + (i % 2 == 0 ? 160 : 0) + static_cast<int>(at) * i % 32);
      put(text(i % 2 == 0 ? "bright/" : "dark/", i, i % 3 == 0 ? ".jpg" : ".png"),
          i % 3 == 0 ? data::jpeg(width, height, 3, pixels) : data::png(width, height, PNG_FORMAT_RGB, pixels));
    }
  }
};

data::DataConfig with_classes(const data::Folder& images) {
  auto config = images.config();
  config.classes = {"bright", "dark"};
  return config;
}

Words recipe_on(const data::Folder& images, const Words& more = {}) {
  Words out{{"recipe", test::source_root() + "/recipes/dit_nano.toml"},
            {"data.data_folder", images.path().string()},
            {"data.classes", "bright,dark"},
            {"train.synthetic", "false"},
            {"dp.noise_seed", "3"},
            {"dp.max_epsilon", "0"},
            {"dp.delta", "1e-3"},
            {"train.steps", "6"},
            {"train.batch_size", "8"},
            {"train.micro_batch", "4"},
            {"train.eval_rate", "0.2"},
            {"train.eval_every", "3"},
            {"train.save_every", "2"},
            {"train.log_every", "1"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

void expect_resumed_to_the_bit(const Words& more) {
  const Pictures images;
  const io::Scratch whole, parts;
  auto words = recipe_on(images, {{"shard.shard", "zero3"}});
  words.insert(words.end(), more.begin(), more.end());
  const auto wanted = train_in(whole.path(), 2, words);
  EXPECT_EQ(wanted.result.steps, 6);
  ASSERT_TRUE(wanted.result.evaluation);
  const auto opened = data::open_images(with_classes(images), {.image_size = 16, .classes = 10});
  EXPECT_EQ(wanted.result.evaluation->records, HeldOut::by_content(*opened, 0.2).evaluation());
  const auto stopped = train_in(parts.path(), 2, words, [](int64_t made) { return made == 2; });
  EXPECT_EQ(stopped.result.steps, 3);
  const auto found = train_in(parts.path(), 2, words);
  EXPECT_TRUE(equal(found, wanted));
  EXPECT_EQ(io::content(parts.path() / "ledger"), io::content(whole.path() / "ledger"));
  EXPECT_EQ(found.losses(), wanted.losses());
  EXPECT_EQ(found.result.evaluation->loss, wanted.result.evaluation->loss);
}

TEST(TrainerImages, RunAndResumeToTheBit) {
  expect_resumed_to_the_bit({});
  expect_resumed_to_the_bit(
      {{"data.flip", "true"}, {"optim.ema", "0.9"}, {"model.learn_sigma", "true"}, {"model.positions", "sincos"}});
}

// All images in every batch, frozen weights (no step): the losses differ because each step draws its own noise and
// timesteps.
TEST(TrainerImages, EveryStepDrawsAnew) {
  const Pictures images;
  const io::Scratch here, again;
  const Words still{{"dp.sample_rate", "1"}, {"optim.lr", "0"}, {"optim.weight_decay", "0"}};
  const auto found = train_in(here.path(), 1, recipe_on(images, still));
  const auto losses = found.losses();
  ASSERT_EQ(losses.size(), 6u);
  EXPECT_EQ(std::set<double>(losses.begin(), losses.end()).size(), 6u);
  EXPECT_EQ(train_in(again.path(), 1, recipe_on(images, still)).losses(), losses) << "and the same in another run";
}

TEST(TrainerImages, MadeUpOnesAreOfTheTypeThatTheModelComputesIn) {
  const io::Scratch here;
  const auto found = train_in(here.path(), 1,
                              {{"model.model", "dit-nano"},
                               {"model.dtype", "bf16"},
                               {"train.steps", "2"},
                               {"train.records", "8"},
                               {"train.batch_size", "4"},
                               {"dp.sampler", "shuffled"}});
  ASSERT_EQ(found.losses().size(), 2u);
  for (const auto loss : found.losses()) EXPECT_TRUE(std::isfinite(loss));
}

// Weights under the published names go through training's ranks and out again as they were.
TEST(TrainerImages, APublishedCheckpointIsReadAndWritten) {
  const io::Scratch here;
  const auto golden = test::source_root() + "/tests/golden/dit_published";
  const auto found = train_in(here.path() / "run", 2,
                              {{"model.model", golden},
                               {"model.weights", golden + "/model.safetensors"},
                               {"shard.shard", "zero3"},
                               {"train.export_folder", (here.path() / "out").string()},
                               {"train.records", "8"},
                               {"train.batch_size", "4"},
                               {"train.steps", "0"}});
  const io::WeightFolder given(golden + "/model.safetensors"), written(here.path() / "out");
  EXPECT_EQ(written.names(), given.names());
  for (const auto& name : given.names()) EXPECT_TRUE(at::equal(written.tensor(name), given.tensor(name))) << name;
  const auto config = read_json(here.path() / "out/config.json");
  EXPECT_EQ(config["positions"], "sincos");
  EXPECT_EQ(config["learn_sigma"], true);
}

// The same name and number of files, but another picture: steps made again would have the same noise on another sum.
TEST(TrainerImages, AnotherPictureIsAnotherIncarnation) {
  const Pictures images;
  const io::Scratch here;
  const auto words = recipe_on(images);
  train_in(here.path(), 1, words, [](int64_t made) { return made == 2; });
  images.put("bright/2.png", data::png(9, 9, PNG_FORMAT_RGB, data::gradient(9, 9, 3)));
  train_in(here.path(), 1, words);
  EXPECT_EQ(incarnation(here.path()), 1);
}

// The names of the folders that have images are not public, and neither is their number.
TEST(TrainerImages, APrivateRunStatesItsClasses) {
  const Pictures images;
  const io::Scratch here;
  EXPECT_NE(refused(here.path(), recipe_on(images, {{"data.classes", ""}})).find("must be given its classes"),
            std::string::npos);
  EXPECT_NE(refused(here.path(), recipe_on(images, {{"data.classes", "bright,night"}})).find("the label 'dark'"),
            std::string::npos);
}

}  // namespace
}  // namespace shade::train
