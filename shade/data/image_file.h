// PNG and JPEG files as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>

namespace shade::data {

// Files are untrusted: sizes are looked at before a pixel is decoded, and what is larger is refused.
inline constexpr int64_t kMaxImageSide = 16384;                // pixels
inline constexpr int64_t kMaxImagePixels = int64_t{64} << 20;  // 192 MiB decoded
inline constexpr int64_t kMaxImageFile = int64_t{256} << 20;   // bytes

bool is_image(const std::filesystem::path& path);  // by its ending: .png, .jpg, .jpeg, also in capitals

// uint8 [H, W, 3]: grey becomes colour, transparency lies on black. What a file is is seen by its first bytes. Throws
// io::FormatError naming the file: neither PNG nor JPEG, too large, damaged, cut short.
at::Tensor read_image(const std::filesystem::path& path);

// As a PNG, of uint8 [H, W, 3] or [H, W, 1].
std::string png_of(const at::Tensor& image_HWC);

// float [3, size, size] or [1, size, size] from -1 to 1: the largest square in the middle, resized with antialiasing.
at::Tensor square_image(const at::Tensor& image_HWC, int64_t size, int64_t channels);

}  // namespace shade::data
