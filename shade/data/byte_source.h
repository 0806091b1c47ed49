// The bytes of a file from begin to end; of a compressed file, what it unpacks to.
//
// gzip is zlib's and Zstandard is libzstd's, both Debian's: neither needs libshade_arrow.so, and compressed texts are
// read by the same readers, with the same line numbers, as plain ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace shade::data {

enum class Compression { none, gzip, zstd };

// A file that unpacks to more than this many times its size (and more than 64 MiB) is refused: a few kilobytes would
// otherwise fill the disk with tokens.
inline constexpr uint64_t kMaxUnpacking = 200;

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills a part of `into`, which is not empty; 0 only at the end. Throws io::FormatError naming the file: it is
  // damaged, cut short, not of this compression, or unpacks to too much.
  virtual size_t read(std::span<std::byte> into) = 0;
  virtual uint64_t position() const = 0;  // bytes of the file that were read
};

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path, Compression compression);

}  // namespace shade::data
