#include "shade/data/image_file.h"

#include <ATen/ATen.h>
#include <png.h>
// libjpeg's header needs size_t and FILE before it.
#include <jerror.h>   // NOLINT: order
#include <jpeglib.h>  // NOLINT: order
#include <cstdio>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <span>

#include "shade/base/error.h"
#include "shade/io/errors.h"
#include "shade/io/input_file.h"

namespace shade::data {
namespace {

using Content = std::span<const unsigned char>;

void check_size(int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxImageSide || height > kMaxImageSide || width * height > kMaxImagePixels)
    throw io::FormatError(text(width, " x ", height, " pixels; at most ", kMaxImageSide, " a side and ",
                               kMaxImagePixels, " in all are read"));
}

at::Tensor read_png(Content content) {
  png_image image;
  std::memset(&image, 0, sizeof(image));
  image.version = PNG_IMAGE_VERSION;
  const auto require = [&](int success) {
    if (success != 0 && PNG_IMAGE_FAILED(image) == 0) return;
    const std::string message = image.message;
    png_image_free(&image);
    throw io::FormatError(text("the PNG is damaged: ", message));
  };
  require(png_image_begin_read_from_memory(&image, content.data(), content.size()));
  try {
    check_size(image.width, image.height);
  } catch (...) {
    png_image_free(&image);
    throw;
  }
  image.format = PNG_FORMAT_RGB;
  auto out = at::empty({image.height, image.width, 3}, at::kByte);
  const png_color black{0, 0, 0};
  require(png_image_finish_read(&image, &black, out.data_ptr<uint8_t>(), 0, nullptr));
  return out;
}

// libjpeg reports by a jump: nothing with a destructor may be made between the setjmp and the call that jumps.
struct JpegReader {
  jpeg_decompress_struct image{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf back{};
  char message[JMSG_LENGTH_MAX]{};

  JpegReader() {
    image.err = jpeg_std_error(&errors);
    image.client_data = this;
    errors.error_exit = [](j_common_ptr common) { self(common).fail(common); };
    errors.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && !harmless(common->err->msg_code)) self(common).fail(common);
    };
    progress.progress_monitor = [](j_common_ptr common) {
      // A small file of thousands of scans would take hours.
      auto& reader = self(common);
      if (reader.image.input_scan_number > 200) {
        std::strcpy(reader.message, "more than 200 scans");
        std::longjmp(reader.back, 1);
      }
    };
  }
  ~JpegReader() { jpeg_destroy_decompress(&image); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  static JpegReader& self(j_common_ptr common) { return *static_cast<JpegReader*>(common->client_data); }

  // Cameras leave bytes between the parts; nothing of the picture is lost.
  static bool harmless(int code) { return code == JWRN_EXTRANEOUS_DATA; }

  [[noreturn]] void fail(j_common_ptr common) {
    common->err->format_message(common, message);
    std::longjmp(back, 1);
  }

  bool begin(Content content) {
    if (setjmp(back) != 0) return false;
    jpeg_create_decompress(&image);
    image.progress = &progress;
    jpeg_mem_src(&image, content.data(), content.size());
    jpeg_read_header(&image, TRUE);
    return true;
  }

  bool decode(uint8_t* out) {
    if (setjmp(back) != 0) return false;
    image.out_color_space = JCS_RGB;
    jpeg_start_decompress(&image);
    const auto row = static_cast<size_t>(image.output_width) * 3;
    while (image.output_scanline < image.output_height) {
      JSAMPROW line = out + static_cast<size_t>(image.output_scanline) * row;
      jpeg_read_scanlines(&image, &line, 1);
    }
    jpeg_finish_decompress(&image);
    return true;
  }
};

at::Tensor read_jpeg(Content content) {
  JpegReader reader;
  if (!reader.begin(content)) throw io::FormatError(text("the JPEG is damaged: ", reader.message));
  check_size(reader.image.image_width, reader.image.image_height);
  if (reader.image.num_components != 1 && reader.image.num_components != 3)
    throw io::FormatError(text("a JPEG of ", reader.image.num_components, " components; grey and colour are read"));
  auto out = at::empty({reader.image.image_height, reader.image.image_width, 3}, at::kByte);
  if (!reader.decode(out.data_ptr<uint8_t>())) throw io::FormatError(text("the JPEG is damaged: ", reader.message));
  return out;
}

at::Tensor decode(Content content) {
  if (content.size() >= 8 && png_sig_cmp(content.data(), 0, 8) == 0) return read_png(content);
  if (content.size() >= 3 && content[0] == 0xFF && content[1] == 0xD8 && content[2] == 0xFF) return read_jpeg(content);
  throw io::FormatError("the file is neither PNG nor JPEG");
}

}  // namespace

bool is_image(const std::filesystem::path& path) {
  auto ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

at::Tensor read_image(const std::filesystem::path& path) {
  const io::InputFile file(path);
  if (file.size() > static_cast<uint64_t>(kMaxImageFile))
    throw io::FormatError(text(path, ": ", file.size(), " bytes; at most ", kMaxImageFile, " are read"));
  std::vector<unsigned char> content(file.size());
  file.read_at(0, std::as_writable_bytes(std::span(content)));
  try {
    return decode(content);
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text(path, ": ", fault.what()));
  }
}

std::string png_of(const at::Tensor& image_HWC) {
  const auto pixels = image_HWC.contiguous();
  SHADE_CHECK(pixels.dim() == 3 && pixels.scalar_type() == at::kByte, "pixels are bytes of rows, columns, channels");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.size(0));
  image.width = static_cast<png_uint_32>(pixels.size(1));
  image.format = pixels.size(2) == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);  // compressed only once
  std::string out(size, '\0');
  SHADE_CHECK(png_image_write_to_memory(&image, out.data(), &size, 0, pixels.data_ptr<uint8_t>(), 0, nullptr) != 0,
              "writing a PNG: ", image.message);
  out.resize(size);
  return out;
}

at::Tensor square_image(const at::Tensor& image_HWC, int64_t size, int64_t channels) {
  const auto h = image_HWC.size(0), w = image_HWC.size(1), side = std::min(h, w);
  auto x = image_HWC.narrow(0, (h - side) / 2, side).narrow(1, (w - side) / 2, side);
  x = x.permute({2, 0, 1}).to(at::kFloat);
  if (channels == 1) x = (x[0] * 0.299 + x[1] * 0.587 + x[2] * 0.114).unsqueeze(0);  // luma of BT.601
  if (side != size) x = at::_upsample_bilinear2d_aa(x.unsqueeze(0).contiguous(), {size, size}, false)[0];
  return x.div(127.5).sub(1).clamp(-1, 1);
}

}  // namespace shade::data
