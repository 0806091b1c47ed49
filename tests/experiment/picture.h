// A picture as libpng decodes it.
#pragma once

#include <png.h>

#include <filesystem>
#include <set>
#include <vector>

#include "shade/base/error.h"

namespace shade::test {

struct PictureFacts {
  uint32_t width = 0, height = 0;
  size_t colours = 0;
  double drawn = 0;
};

// Throws if it isn't a whole PNG. `drawn` is the share of pixels that differ from the one in the corner: the paper.
inline PictureFacts decode_picture(const std::filesystem::path& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  SHADE_CHECK(png_image_begin_read_from_file(&image, file.c_str()) != 0, file.string(), ": ", image.message);
  image.format = PNG_FORMAT_RGBA;
  std::vector<uint32_t> pixels(PNG_IMAGE_SIZE(image) / sizeof(uint32_t));
  SHADE_CHECK(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) != 0, file.string(), ": ",
              image.message);
  size_t drawn = 0;
  for (const auto pixel : pixels) drawn += pixel != pixels.front();
  return {.width = image.width,
          .height = image.height,
          .colours = std::set(pixels.begin(), pixels.end()).size(),
          .drawn = static_cast<double>(drawn) / static_cast<double>(pixels.size())};
}

}  // namespace shade::test
