// A file from begin to end, a block at a time, counting lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shade/base/units.h"
#include "shade/io/input_file.h"

namespace shade::data {

class BlockReader {
 public:
  explicit BlockReader(const std::filesystem::path& path, Bytes block = MiB(1));

  const std::filesystem::path& path() const { return file_.path(); }
  int64_t line() const { return line_; }  // of the first byte not taken, from 1

  // What is read and not taken: empty only at the end of the file.
  std::string_view rest();
  void take(size_t bytes);  // of rest()

  // The next line without its end ("\n" or "\r\n"); false at the end of the file. A line longer than `limit` is a
  // FormatError that says `advice`.
  bool next_line(std::string& line, Bytes limit, std::string_view advice);

 private:
  io::InputFile file_;
  std::vector<std::byte> buffer_;
  uint64_t offset_ = 0;  // of the next block
  size_t begin_ = 0, end_ = 0;
  int64_t line_ = 1;
};

// "FILE:LINE: what", as a FormatError.
[[noreturn]] void fail_at(const std::filesystem::path& path, int64_t line, std::string_view what);

}  // namespace shade::data
