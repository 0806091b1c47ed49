// A picture as libpng decodes it.
#pragma once

#include <png.h>

#include <filesystem>
#include <map>
#include <vector>

#include "shade/base/error.h"

namespace shade::test {

struct PictureFacts {
  uint32_t width = 0, height = 0;
  size_t colours = 0;
  double drawn = 0;
  std::map<uint32_t, size_t> pixels;  // of a colour: 0xRRGGBB

  size_t count(uint32_t colour) const { return pixels.contains(colour) ? pixels.at(colour) : 0; }
};

// Throws if it isn't a whole PNG. `drawn` is the share of pixels that differ from the one in the corner: the paper.
inline PictureFacts decode_picture(const std::filesystem::path& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  SHADE_CHECK(png_image_begin_read_from_file(&image, file.c_str()) != 0, file.string(), ": ", image.message);
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> bytes(PNG_IMAGE_SIZE(image));
  SHADE_CHECK(png_image_finish_read(&image, nullptr, bytes.data(), 0, nullptr) != 0, file.string(), ": ",
              image.message);
  PictureFacts facts{.width = image.width, .height = image.height, .pixels = {}};
  const auto colour_at = [&](size_t at) {
    return uint32_t{bytes[at]} << 16 | uint32_t{bytes[at + 1]} << 8 | bytes[at + 2];
  };
  for (size_t at = 0; at < bytes.size(); at += 3) ++facts.pixels[colour_at(at)];
  facts.colours = facts.pixels.size();
  facts.drawn = 1 - static_cast<double>(facts.count(colour_at(0))) / static_cast<double>(bytes.size() / 3);
  return facts;
}

}  // namespace shade::test
