#include "shade/data/image_dataset.h"

#include <ATen/ATen.h>

#include "folder.h"
#include "image_files.h"
#include "shade/data/classes.h"
#include "shade/data/image_file.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

std::string small_png(int width = 6, int height = 4) {
  return png(width, height, PNG_FORMAT_RGB, gradient(width, height, 3));
}

at::Tensor read(std::string_view content) {
  const Folder folder;
  return read_image(folder.put("x", content));
}

std::string refused(std::string_view content) {
  const Folder folder;
  const auto file = folder.put("x.png", content);
  const auto message = message_of<io::FormatError>([&] { read_image(file); });
  const auto begin = text(file, ": ");
  EXPECT_TRUE(message.starts_with(begin)) << message;
  return message.substr(std::min(begin.size(), message.size()));
}

at::Tensor as_tensor(const Pixels& pixels, int height, int width, int channels) {
  return at::tensor(at::ArrayRef<unsigned char>(pixels)).view({height, width, channels});
}

TEST(ImageFile, PngOfEveryKind) {
  const auto pixels = gradient(6, 4, 3);
  EXPECT_TRUE(read(png(6, 4, PNG_FORMAT_RGB, pixels)).equal(as_tensor(pixels, 4, 6, 3)));
  const auto grey = gradient(6, 4, 1);
  EXPECT_TRUE(read(png(6, 4, PNG_FORMAT_GRAY, grey)).equal(as_tensor(grey, 4, 6, 1).expand({4, 6, 3})));
  const auto clear = read(png(1, 1, PNG_FORMAT_RGBA, {200, 100, 50, 0}));
  EXPECT_TRUE(clear.equal(at::zeros({1, 1, 3}, at::kByte)));
}

TEST(ImageFile, JpegOfColourAndGrey) {
  const auto pixels = gradient(16, 24, 3);
  const auto colour = read(jpeg(16, 24, 3, pixels));
  EXPECT_EQ(colour.sizes(), (at::IntArrayRef{24, 16, 3}));
  const auto grey = gradient(16, 24, 1);
  const auto difference = read(jpeg(16, 24, 1, grey)).to(at::kFloat) - as_tensor(grey, 24, 16, 1).to(at::kFloat);
  EXPECT_LT(difference.abs().max().item<float>(), 8);
  EXPECT_EQ(refused(jpeg(16, 24, 4, gradient(16, 24, 4))), "a JPEG of 4 components; grey and colour are read");
}

TEST(ImageFile, HostileFilesAreRefused) {
  EXPECT_EQ(refused(""), "the file is neither PNG nor JPEG");
  EXPECT_EQ(refused("GIF89a"), "the file is neither PNG nor JPEG");
  const auto good_png = small_png(32, 32), good_jpeg = jpeg(32, 32, 3, gradient(32, 32, 3));
  for (const auto& good : {good_png, good_jpeg})
    for (const size_t size : {good.size() / 8, good.size() / 2, good.size() - 20})
      EXPECT_NE(refused(good.substr(0, size)).find("is damaged"), std::string::npos) << size;
  auto flipped = good_png;
  flipped[good_png.size() / 2] = static_cast<char>(flipped[good_png.size() / 2] ^ 1);
  EXPECT_NE(refused(flipped).find("is damaged"), std::string::npos);
  // Sizes that would need gigabytes: from the header, before anything is allocated.
  auto huge = jpeg(8, 8, 3, gradient(8, 8, 3));
  const auto frame = huge.find("\xFF\xC0");
  for (size_t i = 5; i < 9; ++i) huge[frame + i] = i % 2 == 1 ? '\x7F' : '\xFF';
  EXPECT_EQ(refused(huge), "32767 x 32767 pixels; at most 16384 a side and 67108864 in all are read");
  EXPECT_EQ(refused(png(16385, 1, PNG_FORMAT_GRAY, Pixels(16385))),
            "16385 x 1 pixels; at most 16384 a side and 67108864 in all are read");
}

TEST(ImageFile, AnyBytesEndWell) {
  // A wrong byte anywhere is an image or a FormatError.
  const auto good_png = small_png(9, 7), good_jpeg = jpeg(9, 7, 3, gradient(9, 7, 3));
  const Folder folder;
  int refusals = 0;
  for (const auto& good : {good_png, good_jpeg})
    for (size_t at = 0; at < good.size(); ++at) {
      auto bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      try {
        read_image(folder.put("x", bad));
      } catch (const io::FormatError&) {
        ++refusals;
      }
    }
  EXPECT_GT(refusals, 50);
}

TEST(ImageFile, TheMiddleFromMinusOneToOne) {
  // White square in the middle of black: exactly what remains.
  auto image = at::zeros({4, 10, 3}, at::kByte);
  image.narrow(1, 3, 4).fill_(255);
  EXPECT_TRUE(square_image(image, 4, 3).equal(at::ones({3, 4, 4})));
  EXPECT_TRUE(square_image(image, 8, 1).allclose(at::ones({1, 8, 8}), 1e-5, 1e-5));
  EXPECT_TRUE(square_image(at::zeros({5, 5, 3}, at::kByte), 2, 3).equal(-at::ones({3, 2, 2})));
  // Halving averages: antialiased, not picked.
  const auto stripes = at::arange(8).remainder(2).mul(255).to(at::kByte).view({1, 8, 1}).expand({8, 8, 3});
  EXPECT_LT(square_image(stripes, 2, 3).abs().max().item<float>(), 0.3);
}

class Images : public testing::Test {
 protected:
  Images() {
    for (const char* name : {"cat/b.png", "cat/deep/a.PNG", "dog/x.png"}) folder_.put(name, small_png());
    folder_.put("dog/y.jpg", jpeg(8, 8, 3, gradient(8, 8, 3)));
    folder_.put("dog/notes.txt", "no");
    folder_.put("empty/notes.txt", "no");
    folder_.put(".hidden/z.png", "no");
  }
  ImageDataset opened(const ImageOptions& options) const { return {folder_.path(), options}; }

  Folder folder_;
  ImageOptions options_{.image_size = 8, .classes = 5, .label_dropout = 0, .seed = 3};
};

TEST_F(Images, AreFoundByClass) {
  const auto data = opened(options_);
  EXPECT_EQ(data.classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(data.size(), 4);
  EXPECT_EQ(data.file(1), folder_.path() / "cat/deep/a.PNG");
  const auto batch = data.batch(std::array<int64_t, 4>{0, 1, 2, 3});
  EXPECT_TRUE(batch.labels.equal(at::tensor(std::vector<int64_t>{0, 0, 1, 1})));
  EXPECT_EQ(batch.samples(), 4);
  EXPECT_EQ(data.describe(), "4 images of 2 classes, 8 x 8");
}

TEST_F(Images, NoiseDependsOnTheRecordAndTheDrawAlone) {
  const auto data = opened(options_);
  const auto all = data.batch_at(std::array<int64_t, 3>{0, 2, 3}, 7);
  const auto one = data.batch_at(std::array<int64_t, 1>{2}, 7);
  EXPECT_TRUE(one.images_BCHW[0].equal(all.images_BCHW[1]));
  EXPECT_TRUE(one.noise_BCHW[0].equal(all.noise_BCHW[1]));
  EXPECT_TRUE(one.timesteps_B[0].equal(all.timesteps_B[1]));
  EXPECT_FALSE(one.noise_BCHW[0].equal(data.batch_at(std::array<int64_t, 1>{2}, 8).noise_BCHW[0]));
  EXPECT_FALSE(all.noise_BCHW[0].equal(all.noise_BCHW[1]));
  options_.seed = 4;
  EXPECT_FALSE(one.noise_BCHW[0].equal(opened(options_).batch_at(std::array<int64_t, 1>{2}, 7).noise_BCHW[0]));
}

// One record more must change one record: the others keep their noise, timestep and dropped label to the bit.
TEST_F(Images, AnImageInFrontChangesNoOther) {
  options_.label_dropout = 0.5;
  const auto before = opened(options_);
  folder_.put("cat/a.png", small_png(9, 9));
  const auto after = opened(options_);
  ASSERT_EQ(after.file(1), before.file(0));
  for (uint64_t draw = 0; draw < 20; ++draw) {
    const auto were = before.batch_at(std::array<int64_t, 4>{0, 1, 2, 3}, draw);
    const auto are = after.batch_at(std::array<int64_t, 4>{1, 2, 3, 4}, draw);
    ASSERT_TRUE(are.images_BCHW.equal(were.images_BCHW));
    ASSERT_TRUE(are.noise_BCHW.equal(were.noise_BCHW));
    ASSERT_TRUE(are.timesteps_B.equal(were.timesteps_B));
    ASSERT_TRUE(are.labels.equal(were.labels));
  }
}

TEST_F(Images, ContentIsThePictureAndItsClass) {
  const auto data = opened(options_);
  EXPECT_EQ(data.content_of(0), data.content_of(1)) << "the same picture in the same class";
  EXPECT_NE(data.content_of(0), data.content_of(2)) << "in another class";
  EXPECT_NE(data.content_of(2), data.content_of(3));
  EXPECT_THROW(data.content_of(4), UsageError);
}

TEST_F(Images, TheNoisyImageIsTheImageAndItsNoise) {
  const auto data = opened(options_);
  const auto clean = square_image(read_image(data.file(0)), 8, 3);
  std::vector<double> kept{1 - 1e-4};
  for (int t = 1; t < 1000; ++t) kept.push_back(kept.back() * (1 - (1e-4 + t / 999.0 * (0.02 - 1e-4))));
  double sum = 0;
  for (uint64_t draw = 0; draw < 200; ++draw) {
    const auto batch = data.batch_at(std::array<int64_t, 1>{0}, draw);
    const auto t = batch.timesteps_B[0].item<int64_t>();
    ASSERT_TRUE(t >= 0 && t < 1000);
    sum += static_cast<double>(t);
    const auto a = kept[static_cast<size_t>(t)];
    ASSERT_TRUE(
        batch.images_BCHW[0].allclose(clean * std::sqrt(a) + batch.noise_BCHW[0] * std::sqrt(1 - a), 1e-4, 1e-5));
  }
  EXPECT_NEAR(sum / 200, 500, 100);  // five standard deviations of the mean of 200
}

TEST_F(Images, LabelsAreDropped) {
  options_.label_dropout = 0.3;
  const auto data = opened(options_);
  int dropped = 0;
  for (uint64_t draw = 0; draw < 300; ++draw) {
    const auto label = data.batch_at(std::array<int64_t, 1>{3}, draw).labels[0].item<int64_t>();
    EXPECT_TRUE(label == 1 || label == 5);
    dropped += label == 5 ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 90, 40);
}

// The clean image of a batch's first sample, from the noise it was given.
at::Tensor clean(const nn::Batch& batch) {
  double kept = 1;
  for (int64_t t = 0; t <= batch.timesteps_B[0].item<int64_t>(); ++t)
    kept *= 1 - (1e-4 + static_cast<double>(t) / 999 * (0.02 - 1e-4));
  return (batch.images_BCHW[0] - batch.noise_BCHW[0] * std::sqrt(1 - kept)) / std::sqrt(kept);
}

TEST_F(Images, AreFlippedInTrainingHalfOfTheTime) {
  const std::array<int64_t, 1> one{3};
  const std::array<int64_t, 3> among{2, 3, 0};
  const auto still = opened(options_);
  options_.flip = true;
  const auto data = opened(options_);
  EXPECT_NE(data.fingerprint(), still.fingerprint());
  const auto image = square_image(read_image(data.file(3)), 8, 3), mirror = image.flip({2});
  ASSERT_FALSE(image.allclose(mirror, 0, 0.1));
  int flipped = 0, seen = 0;
  for (uint64_t draw = 0; draw < 200; ++draw) {
    const auto batch = data.batch_at(one, draw), plain = still.batch_at(one, draw);
    EXPECT_TRUE(batch.noise_BCHW.equal(plain.noise_BCHW)) << "noise, timesteps and labels are drawn as without";
    EXPECT_TRUE(batch.timesteps_B.equal(plain.timesteps_B));
    EXPECT_TRUE(data.batch_at(among, draw).images_BCHW[1].equal(batch.images_BCHW[0])) << "whatever batch it is in";
    if (batch.timesteps_B[0].item<int64_t>() > 500) continue;  // there the image is lost in fp32
    const bool is_mirror = clean(batch).allclose(mirror, 0, 1e-3);
    EXPECT_TRUE(is_mirror || clean(batch).allclose(image, 0, 1e-3));
    flipped += is_mirror ? 1 : 0;
    ++seen;
  }
  EXPECT_NEAR(flipped, seen / 2.0, 30);
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_TRUE(data.batch(std::array{i}).images_BCHW.equal(still.batch(std::array{i}).images_BCHW)) << "evaluation";
}

TEST_F(Images, EvaluationKeepsEveryLabel) {
  options_.label_dropout = 1;
  const auto data = opened(options_);
  const std::array<int64_t, 4> all{0, 1, 2, 3};
  EXPECT_TRUE(data.batch(all).labels.equal(at::tensor(std::vector<int64_t>{0, 0, 1, 1})));
  EXPECT_TRUE(data.batch_at(all, 0).labels.equal(at::tensor(std::vector<int64_t>{5, 5, 5, 5})));
  EXPECT_TRUE(data.batch(all).noise_BCHW.equal(data.batch(all).noise_BCHW)) << "the same in every evaluation";
}

TEST_F(Images, OtherFilesHaveAnotherFingerprint) {
  const auto before = opened(options_).fingerprint();
  EXPECT_EQ(opened(options_).fingerprint(), before);
  folder_.put("dog/x.png", small_png(7, 4));
  const auto changed = opened(options_).fingerprint();
  EXPECT_NE(changed, before);
  std::filesystem::rename(folder_.path() / "dog/x.png", folder_.path() / "cat/x.png");
  EXPECT_NE(opened(options_).fingerprint(), changed);
}

TEST_F(Images, AnotherPictureOfTheSameSizeAndTimeHasAnotherFingerprint) {
  const auto before = opened(options_).fingerprint();
  const auto file = folder_.path() / "dog/x.png";
  const auto time = std::filesystem::last_write_time(file);
  auto content = io::content(file);
  content[content.size() / 2] ^= 1;
  folder_.put("dog/x.png", content);
  std::filesystem::last_write_time(file, time);
  EXPECT_NE(opened(options_).fingerprint(), before);
  options_.names = {"cat", "dog", "cow"};
  const auto named = opened(options_).fingerprint();
  options_.names = {"cow", "cat", "dog"};
  EXPECT_NE(opened(options_).fingerprint(), named);
}

TEST_F(Images, StatedClassesAreTheClasses) {
  options_.names = {"dog", "cow", "cat"};
  const auto data = opened(options_);
  EXPECT_EQ(data.classes(), options_.names);
  EXPECT_TRUE(
      data.batch(std::array<int64_t, 4>{0, 1, 2, 3}).labels.equal(at::tensor(std::vector<int64_t>{2, 2, 0, 0})));
  options_.names = {"cat", "cow"};
  EXPECT_NE(message_of<UnknownLabel>([&] { opened(options_); }).find("the data has the label 'dog'"),
            std::string::npos);
}

TEST_F(Images, NoRecordsMakeAnEmptyBatch) {
  options_.channels = 1;
  options_.type = at::kBFloat16;
  const auto batch = opened(options_).batch({});
  EXPECT_EQ(batch.samples(), 0);
  EXPECT_EQ(batch.images_BCHW.sizes(), (at::IntArrayRef{0, 1, 8, 8}));
  EXPECT_EQ(batch.images_BCHW.scalar_type(), at::kBFloat16);
}

TEST_F(Images, WrongFoldersAreSaid) {
  EXPECT_NE(message_of<UsageError>([&] { ImageDataset(folder_.path() / "gone", options_); }).find("no images at"),
            std::string::npos);
  EXPECT_NE(
      message_of<UsageError>([&] { ImageDataset(folder_.path() / "empty", options_); }).find("has no folder with"),
      std::string::npos);
  EXPECT_NE(message_of<UsageError>([&] { ImageDataset(folder_.path() / "dog", options_); }).find("lies in no class"),
            std::string::npos);
  options_.classes = 1;
  EXPECT_NE(message_of<UsageError>([&] { opened(options_); }).find("has 2 classes, the model 1"), std::string::npos);
  folder_.put("dog/broken.png", "broken");
  options_.classes = 2;
  const auto data = opened(options_);
  EXPECT_NE(message_of<io::FormatError>([&] { data.batch(std::array<int64_t, 1>{2}); }).find("broken.png"),
            std::string::npos);
}

}  // namespace
}  // namespace shade::data
