#include "shade/data/image_dataset.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/memory_scope.h"
#include "shade/base/terminal.h"
#include "shade/data/classes.h"
#include "shade/data/image_file.h"
#include "shade/hash/content_hash.h"
#include "shade/hash/digest.h"
#include "shade/io/input_file.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> out;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator(); ++at) {
    if (is_hidden(at->path()))
      at.disable_recursion_pending();
    else if (is_image(at->path()) && at->is_regular_file())
      out.push_back(at->path());
  }
  std::sort(out.begin(), out.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return out;
}

// One generator for each image and draw.
at::Generator generator_of(uint64_t seed, uint64_t content, uint64_t draw) {
  const auto digest = hash::digest_of(text("image ", seed, ' ', content, ' ', draw));
  uint64_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return at::make_generator<at::CPUGeneratorImpl>(number);
}

}  // namespace

ImageDataset::ImageDataset(const fs::path& folder, const ImageOptions& options)
    : options_(options), schedule_(options.timesteps) {
  SHADE_REQUIRE(fs::is_directory(folder), "no images at ", folder, "; expected a folder with a folder for each class");
  SHADE_REQUIRE(options.image_size >= 1 && options.timesteps >= 1, "an image of ", options.image_size, " pixels and ",
                options.timesteps, " timesteps; expected at least 1");
  SHADE_REQUIRE(options.channels == 1 || options.channels == 3, "images have 1 or 3 channels, not ", options.channels);
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    SHADE_REQUIRE(!is_image(entry.path()) || !entry.is_regular_file(), entry.path(),
                  " lies in no class; expected a folder for each class in ", folder);
    if (entry.is_directory() && !is_hidden(entry.path()) && !images_below(entry.path()).empty())
      found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  SHADE_REQUIRE(!found.empty(), folder, " has no folder with .png, .jpg or .jpeg files");
  for (const auto& name : found)
    SHADE_REQUIRE(!io::first_not_utf8(name), "the name of the class ", io::quote(name),
                  " is not valid UTF-8; rename its folder");
  classes_ = options.names.empty() ? found : options.names;
  SHADE_REQUIRE(static_cast<int64_t>(classes_.size()) <= options.classes, folder, " has ", classes_.size(),
                " classes, the model ", options.classes, "; set --num-classes");
  const auto numbers = number_labels(found, classes_);
  for (size_t i = 0; i < found.size(); ++i)
    for (auto& path : images_below(folder / found[i])) files_.push_back({std::move(path), numbers[i]});
}

nn::Batch ImageDataset::noised(std::span<const int64_t> records, uint64_t draw, Use use) const {
  const MemoryScope scope(MemoryKind::data);
  const auto b = static_cast<int64_t>(records.size()), c = options_.channels, s = options_.image_size;
  const bool trains = use == Use::training;
  auto noisy = at::empty({b, c, s, s}, at::kFloat), noise = at::empty({b, c, s, s}, at::kFloat);
  nn::Batch batch;
  batch.timesteps_B = at::empty({b}, at::kLong);
  batch.labels = at::empty({b}, at::kLong);
  for (int64_t i = 0; i < b; ++i) {
    const auto record = records[static_cast<size_t>(i)];
    const auto content = content_of(record);
    const auto& [path, label] = files_[static_cast<size_t>(record)];
    auto generator = generator_of(options_.seed, content, draw);
    const auto t = at::randint(0, options_.timesteps, {}, generator, at::kLong).item<int64_t>();
    const bool dropped = at::rand({}, generator, at::kFloat).item<double>() < options_.label_dropout;
    const auto own_noise = at::randn({c, s, s}, generator, at::kFloat);
    const bool flipped = options_.flip && trains && at::rand({}, generator, at::kFloat).item<double>() < 0.5;
    const auto kept = schedule_.kept[static_cast<size_t>(t)];
    const auto image = square_image(read_image(path), s, c);
    noisy[i] = (flipped ? image.flip({2}) : image) * std::sqrt(kept) + own_noise * std::sqrt(1 - kept);
    noise[i] = own_noise;
    batch.timesteps_B[i] = t;
    batch.labels[i] = dropped && trains ? options_.classes : label;
  }
  batch.images_BCHW = noisy.to(options_.type);
  batch.noise_BCHW = noise.to(options_.type);
  return batch;
}

std::string ImageDataset::describe() const {
  return text(files_.size(), " images of ", classes_.size(), " classes, ", options_.image_size, " x ",
              options_.image_size);
}

uint64_t ImageDataset::content_of(int64_t record) const {
  SHADE_REQUIRE(record >= 0 && record < size(), "record ", record, " of ", size());
  return hashes().contents[static_cast<size_t>(record)];
}

const ImageDataset::Hashes& ImageDataset::hashes() const {
  std::call_once(hashed_, [this] { hashes_ = hash_files(); });
  return hashes_;
}

ImageDataset::Hashes ImageDataset::hash_files() const {
  Hashes out;
  hash::Hasher all;
  all.add(Json::array({options_.image_size, options_.channels, options_.classes, options_.label_dropout, options_.flip,
                       options_.timesteps, options_.seed, c10::toString(options_.type), classes_})
              .dump());
  Progress progress("hashing the images", size());
  for (const auto& [path, label] : files_) {
    const auto file = io::MappedFile::open(path);
    all.add(text(label, ' ', hash::to_hex(hash::digest_of(file->bytes())), '\n'));
    const auto [low, high] = hash::content_hash(file->bytes());
    const std::array held{low, high, static_cast<uint64_t>(label)};
    out.contents.push_back(hash::content_hash(std::as_bytes(std::span(held)))[0]);
    progress.advance();
  }
  out.all = hash::to_hex(all.digest());
  return out;
}

}  // namespace shade::data
