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
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/units.h"

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

// A file of text from begin to end, a block at a time, counting lines.
class BlockReader {
 public:
  explicit BlockReader(std::filesystem::path path, Compression compression = Compression::none, Bytes block = MiB(1));

  const std::filesystem::path& path() const { return path_; }
  int64_t line() const { return line_; }  // of the first byte not taken, from 1
  uint64_t position() const { return source_->position(); }

  // What is read and not taken: empty only at the end of the file.
  std::string_view rest();
  void take(size_t bytes);  // of rest()

  // The next line without its end ("\n" or "\r\n"); false at the end of the file. A line longer than `limit` is a
  // FormatError that says `advice`.
  bool next_line(std::string& line, Bytes limit, std::string_view advice);

 private:
  std::filesystem::path path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;
  int64_t line_ = 1;
};

// "FILE:LINE: what", as a FormatError.
[[noreturn]] void fail_at(const std::filesystem::path& path, int64_t line, std::string_view what);

}  // namespace shade::data
