// Image files for tests, made by the libraries that others make theirs with.
#pragma once

#include <cstdio>  // jpeglib.h needs it before
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>  // NOLINT: order
#include <png.h>

namespace shade::data {

using Pixels = std::vector<unsigned char>;

inline Pixels gradient(int width, int height, int channels) {
  Pixels out;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c) out.push_back(static_cast<unsigned char>((x * 3 + y * 2 + c * 40) % 256));
  return out;
}

inline std::string png(int width, int height, unsigned format, const Pixels& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<unsigned>(width);
  image.height = static_cast<unsigned>(height);
  image.format = format;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string out(size, '\0');
  png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data(), 0, nullptr);
  return out.substr(0, size);
}

inline std::string jpeg(int width, int height, int components, const Pixels& pixels) {
  jpeg_compress_struct image{};
  jpeg_error_mgr errors{};
  image.err = jpeg_std_error(&errors);
  jpeg_create_compress(&image);
  unsigned char* made = nullptr;
  unsigned long size = 0;  // NOLINT: libjpeg's type
  jpeg_mem_dest(&image, &made, &size);
  image.image_width = static_cast<unsigned>(width);
  image.image_height = static_cast<unsigned>(height);
  image.input_components = components;
  image.in_color_space = components == 1 ? JCS_GRAYSCALE : components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&image);
  jpeg_set_quality(&image, 95, TRUE);
  jpeg_start_compress(&image, TRUE);
  while (image.next_scanline < image.image_height) {
    auto* line = const_cast<unsigned char*>(pixels.data()) +
                 static_cast<size_t>(image.next_scanline) * static_cast<size_t>(width * components);
    jpeg_write_scanlines(&image, &line, 1);
  }
  jpeg_finish_compress(&image);
  jpeg_destroy_compress(&image);
  std::string out(reinterpret_cast<char*>(made), size);
  std::free(made);
  return out;
}

}  // namespace shade::data
