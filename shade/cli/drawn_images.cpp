#include "shade/cli/drawn_images.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "shade/base/effect.h"
#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/data/image_file.h"
#include "shade/serve/sample_images.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPositionsAtOnce = 16384;             // of the images that are drawn together
constexpr int64_t kGridColumns = 16, kGridSide = 4096;  // images in a row, pixels of a column, at most
constexpr int64_t kGap = 2;                             // pixels between images of the grid

// As the folder of a class: its name where that is a plain one; config.json may say anything.
std::string folder_of(const serve::OpenedModel& model, int64_t number) {
  const auto index = static_cast<size_t>(number);
  const auto name = index < model.classes.size() ? model.classes[index] : "";
  const bool plain = !name.empty() && name.size() <= 200 && name.front() != '.' && name == visible(name) &&
                     name.find('/') == std::string::npos;
  return plain ? name : std::to_string(number);
}

// The same for a class in whatever number of images, and beside whatever other classes.
at::Tensor noise_of(const models::ImageTraits& traits, uint64_t seed, int64_t number, int64_t images) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(seed + 0x9E3779B97F4A7C15 * (static_cast<uint64_t>(number) + 1));
  std::vector<at::Tensor> out;
  for (int64_t i = 0; i < images; ++i)
    out.push_back(at::randn({traits.channels, traits.image_size, traits.image_size}, generator, at::kFloat));
  return at::stack(out);
}

at::Tensor pixels_of(const at::Tensor& image_CHW) {
  return ((image_CHW + 1) * 127.5).round().clamp(0, 255).to(at::kByte).permute({1, 2, 0}).contiguous();
}

void write_image(const fs::path& file, const std::string& content) {
  std::ofstream out(file, std::ios::binary);
  out << content;
  out.close();
  SHADE_REQUIRE(out, file.string(), " could not be written");
}

// A row for each class, white between the images.
at::Tensor grid_of(const std::vector<std::vector<at::Tensor>>& rows) {
  const auto h = rows[0][0].size(0), w = rows[0][0].size(1), channels = rows[0][0].size(2);
  const auto columns = std::ssize(rows[0]);
  auto out = at::full({std::ssize(rows) * (h + kGap) - kGap, columns * (w + kGap) - kGap, channels}, 255, at::kByte);
  for (size_t y = 0; y < rows.size(); ++y)
    for (size_t x = 0; x < rows[y].size(); ++x)
      out.narrow(0, static_cast<int64_t>(y) * (h + kGap), h)
          .narrow(1, static_cast<int64_t>(x) * (w + kGap), w)
          .copy_(rows[y][x]);
  return out;
}

}  // namespace

void ImagesConfig::declare(Fields& f) {
  f.add("class_labels", class_labels,
        {.help = "classes to draw, by name or number, comma-separated; if not set: all of the model",
         .flags = {"--class-labels"},
         .needs = {needs_images()}});
  f.add("images_per_class", images_per_class,
        {.help = "number of images of each class",
         .unit = "images",
         .min = 1,
         .flags = {"--images-per-class"},
         .needs = {needs_images()}});
  f.add("num_inference_steps", num_inference_steps,
        {.help = "number of denoising steps (DDIM)",
         .min = 1,
         .max = 1000,
         .flags = {"--num-inference-steps"},
         .needs = {needs_images()}});
  f.add("guidance_scale", guidance_scale,
        {.help = "weight of classifier-free guidance; 1: none, more: closer to the class and less varied",
         .min = 0,
         .flags = {"--guidance-scale"},
         .needs = {needs_images()}});
  f.add("output_dir", output_dir,
        {.help = "folder that images/CLASS/N.png and grid.png are written to",
         .flags = {"--output-dir"},
         .needs = {needs_images()}});
}

std::vector<int64_t> ImagesConfig::classes_of(const serve::OpenedModel& model) const {
  const auto known = model.model->image_traits()->classes;
  const auto named = std::ssize(model.classes);
  std::vector<int64_t> out(static_cast<size_t>(class_labels.empty() ? (named > 0 ? named : known) : 0));
  std::iota(out.begin(), out.end(), 0);
  for (const auto& label : class_labels) {
    const auto found = std::find(model.classes.begin(), model.classes.end(), label);
    const auto number =
        found != model.classes.end() ? found - model.classes.begin() : parse_integer(label).value_or(-1);
    SHADE_REQUIRE(number >= 0 && number < known, "--class-labels: '", label, "' is no class of the model; expected ",
                  named > 0 ? text("one of ", join(model.classes, ", "), ", or ") : "", "a number from 0 to ",
                  known - 1);
    SHADE_REQUIRE(std::find(out.begin(), out.end(), number) == out.end(), "--class-labels names class '", label,
                  "' twice");
    out.push_back(number);
  }
  return out;
}

Json ImagesConfig::draw(const serve::OpenedModel& model, uint64_t seed) const {
  SHADE_REQUIRE(!output_dir.empty(), "images need a place; set --output-dir FOLDER");
  const auto folder = fs::path(output_dir), done = folder / "images", unfinished = folder / ".images";
  SHADE_REQUIRE(!fs::exists(done), done.string(), " is there already; choose another --output-dir");
  const auto classes = classes_of(model);
  const auto traits = *model.model->image_traits();
  const serve::ImageSampling sampling{.steps = num_inference_steps, .guidance = guidance_scale};
  const auto at_once = std::max<int64_t>(1, kPositionsAtOnce / model.model->tokens({.samples = 1}));
  const auto batches = (images_per_class + at_once - 1) / at_once;
  const auto rows = std::max<int64_t>(1, kGridSide / (traits.image_size + kGap));

  fs::remove_all(unfinished);
  std::vector<std::vector<at::Tensor>> grid;
  const auto begin = Clock::now();
  {
    Progress progress("drawing", std::ssize(classes) * batches * num_inference_steps);
    for (const auto number : classes) {
      const auto place = unfinished / folder_of(model, number);
      fs::create_directories(place);
      const auto noise = noise_of(traits, seed, number, images_per_class);
      std::vector<at::Tensor> row;
      for (int64_t i = 0; i < images_per_class; i += at_once) {
        const auto some = noise.slice(0, i, i + at_once);
        const auto images = serve::sample_images(*model.model, some, at::full({some.size(0)}, number, at::kLong),
                                                 sampling, [&] { progress.advance(); });
        for (int64_t k = 0; k < images.size(0); ++k) {
          const auto pixels = pixels_of(images[k]);
          write_image(
              place / text(std::string(5 - std::min<size_t>(5, std::to_string(i + k).size()), '0'), i + k, ".png"),
              data::png_of(pixels));
          if (i + k < kGridColumns) row.push_back(pixels);
        }
      }
      if (std::ssize(grid) < rows) grid.push_back(std::move(row));
    }
  }
  const Seconds took = Clock::now() - begin;
  write_output(folder / "grid.png", data::png_of(grid_of(grid)));
  fs::rename(unfinished, done);
  const auto images = std::ssize(classes) * images_per_class;
  const double rate = static_cast<double>(images) / took.count();
  std::printf("%s: %ld images of %ld classes, %s images/s; some of them in %s\n", visible(done.string()).c_str(),
              static_cast<long>(images), static_cast<long>(std::ssize(classes)), significant(rate).c_str(),
              visible((folder / "grid.png").string()).c_str());
  auto names = Json::array();
  for (const auto number : classes) names.push_back(folder_of(model, number));
  return {{"images", images}, {"classes", names}, {"images_per_second", rate}};
}

}  // namespace shade::cli
