// A file of text from begin to end, a block at a time, counting lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shade/base/units.h"
#include "shade/data/byte_source.h"

namespace shade::data {

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
