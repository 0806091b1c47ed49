// Images by class, noised for a denoiser: a folder of folders of PNG and JPEG files. A record is an image.
// The noise is that of nn/diffusion.h.
#pragma once

#include <filesystem>
#include <mutex>
#include <vector>

#include "shade/data/dataset.h"
#include "shade/nn/diffusion.h"

namespace shade::data {

// How images are scaled, labelled and noised.
struct ImageOptions {
  int64_t image_size = 256;  // pixels per side; the largest square in an image's middle is resized to it
  int64_t channels = 3;      // or 1
  int64_t classes = 1000;    // of the model: at least those of the folder; the number of "no class" when dropped
  std::vector<std::string> names{};  // of the classes, in this order; empty: the folders that have images, sorted
  double label_dropout = 0.1;        // how often an image is trained on without its class
  bool flip = false;                 // train on an image or its mirror image, each half of the time
  int64_t timesteps = 1000;          // of the noise schedule; that of an image is drawn from 0 to timesteps - 1
  uint64_t seed = 0;                 // of noise, timesteps, dropped labels and flips
  at::ScalarType type = at::kFloat;  // of images_BCHW and noise_BCHW
};

// A folder with one folder of images per class. Records are in the order of folders and paths.
class ImageDataset final : public Dataset {
 public:
  // Finds the files; they are decoded when a batch asks for them. Throws UsageError: no folder, an image outside of a
  // class, a class that is none of the names, more classes than the model has.
  ImageDataset(const std::filesystem::path& folder, const ImageOptions& options);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }

  // images_BCHW (noisy), noise_BCHW, timesteps_B, labels. Noise, timestep, dropout and flip of an image depend on
  // (seed, content, draw) alone: not on the batch it is in, and not on its number, which other images decide. Labels
  // are dropped and images flipped in training alone.
  nn::Batch batch(std::span<const int64_t> records) const override { return noised(records, 0, Use::evaluation); }
  nn::Batch batch_at(std::span<const int64_t> records, uint64_t draw) const override {
    return noised(records, draw, Use::training);
  }
  std::string describe() const override;
  std::string fingerprint() const override { return hashes().all; }
  uint64_t content_of(int64_t record) const override;  // the bytes of its file, and its class

  std::vector<std::string> classes() const override { return classes_; }
  // The file that a record is read from.
  const std::filesystem::path& file(int64_t record) const { return files_.at(static_cast<size_t>(record)).path; }

 private:
  enum class Use { training, evaluation };
  nn::Batch noised(std::span<const int64_t> records, uint64_t draw, Use use) const;

  struct File {
    std::filesystem::path path;
    int64_t label;
  };

  // Of all files; each is read once, at the first use.
  struct Hashes {
    std::string all;                 // the fingerprint
    std::vector<uint64_t> contents;  // of each record
  };
  const Hashes& hashes() const;
  Hashes hash_files() const;

  ImageOptions options_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
  nn::DiffusionSchedule schedule_;
  mutable std::once_flag hashed_;
  mutable Hashes hashes_;
};

}  // namespace shade::data
