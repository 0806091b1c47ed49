// Any bytes as an image: refused with a FormatError, or decoded to as many pixels as its header says.
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>

#include "fuzz/in_memory.h"
#include "shade/data/image_file.h"
#include "shade/io/errors.h"

namespace {
volatile uint8_t sink;  // where the compiler can't see that nobody wants what was decoded
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace shade;
  static const fuzz::InMemory file;
  file.fill({reinterpret_cast<const char*>(bytes), size});
  at::Tensor image;
  try {
    image = data::read_image(file.path());
  } catch (const io::FormatError& fault) {
    fuzz::check_message(fault.what());
    return 0;
  }
  SHADE_CHECK(image.dim() == 3 && image.size(2) == 3 && image.scalar_type() == at::kByte, "not [H, W, 3]");
  SHADE_CHECK(image.size(0) <= data::kMaxImageSide && image.size(1) <= data::kMaxImageSide &&
                  image.numel() <= 3 * data::kMaxImagePixels,
              "larger than allowed");
  // All that was promised must have been written, or it is another file's memory.
  const auto* pixels = image.const_data_ptr<uint8_t>();
  uint8_t all = 0;
  for (int64_t i = 0; i < image.numel(); ++i) all ^= pixels[i];
  sink = all;
  if (image.numel() <= 3 * 64 * 64) {
    const auto square = data::square_image(image, 8, 3);
    SHADE_CHECK(square.min().item<float>() >= -1 && square.max().item<float>() <= 1, "outside of -1 to 1");
  }
  return 0;
}
