#include "shade/data/block_reader.h"

#include <algorithm>

#include "shade/io/errors.h"

namespace shade::data {

namespace {

// A folder may have a million small files: none gets a larger buffer than it can fill.
size_t buffer_for(const std::filesystem::path& path, Compression compression, Bytes block) {
  const auto most = static_cast<size_t>(block.count);
  return compression == Compression::none ? std::clamp<size_t>(std::filesystem::file_size(path), 1, most) : most;
}

}  // namespace

void fail_at(const std::filesystem::path& path, int64_t line, std::string_view what) {
  throw io::FormatError(text(path.string(), ":", line, ": ", what));
}

BlockReader::BlockReader(std::filesystem::path path, Compression compression, Bytes block)
    : path_(std::move(path)), source_(open_bytes(path_, compression)), buffer_(buffer_for(path_, compression, block)) {}

std::string_view BlockReader::rest() {
  if (begin_ == end_) {
    begin_ = 0;
    end_ = source_->read(buffer_);
  }
  return {reinterpret_cast<const char*>(buffer_.data()) + begin_, end_ - begin_};
}

void BlockReader::take(size_t bytes) {
  const auto* from = reinterpret_cast<const char*>(buffer_.data()) + begin_;
  line_ += std::count(from, from + bytes, '\n');
  begin_ += bytes;
}

bool BlockReader::next_line(std::string& line, Bytes limit, std::string_view advice) {
  line.clear();
  const auto at = line_;
  if (rest().empty()) return false;
  for (auto part = rest(); !part.empty(); part = rest()) {
    const auto end = part.find('\n');
    line.append(part.substr(0, end));
    if (line.size() > static_cast<size_t>(limit.count))
      fail_at(path(), at, text("a line of more than ", to_string(limit), "; ", advice));
    take(end == std::string_view::npos ? part.size() : end + 1);
    if (end != std::string_view::npos) break;
  }
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace shade::data
