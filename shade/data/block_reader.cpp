#include "shade/data/block_reader.h"

#include <algorithm>

#include "shade/io/errors.h"

namespace shade::data {

void fail_at(const std::filesystem::path& path, int64_t line, std::string_view what) {
  throw io::FormatError(text(path.string(), ":", line, ": ", what));
}

BlockReader::BlockReader(const std::filesystem::path& path, Bytes block)
    : file_(path),
      buffer_(std::min<uint64_t>(static_cast<uint64_t>(block.count), std::max<uint64_t>(file_.size(), 1))) {}

std::string_view BlockReader::rest() {
  if (begin_ == end_ && offset_ < file_.size()) {
    begin_ = 0;
    end_ = std::min<uint64_t>(buffer_.size(), file_.size() - offset_);
    file_.read_at(offset_, {buffer_.data(), end_});
    offset_ += end_;
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
