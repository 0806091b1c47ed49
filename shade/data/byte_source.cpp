#include "shade/data/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "shade/base/units.h"
#include "shade/io/errors.h"
#include "shade/io/input_file.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

class PlainFile final : public ByteSource {
 public:
  explicit PlainFile(const fs::path& path) : file_(path) {}

  size_t read(std::span<std::byte> into) override {
    const auto part = into.first(std::min<uint64_t>(into.size(), file_.size() - offset_));
    file_.read_at(offset_, part);
    offset_ += part.size();
    return part.size();
  }
  uint64_t position() const override { return offset_; }

 private:
  io::InputFile file_;
  uint64_t offset_ = 0;
};

// One format of compression. A file is one frame or several in a row.
class Decoder {
 public:
  virtual ~Decoder() = default;

  struct Step {
    size_t consumed = 0, produced = 0;
    bool frame_is_over = false;  // what comes next is a new frame
    const char* fault = nullptr;
  };
  virtual Step decode(std::span<const std::byte> from, std::span<std::byte> into) = 0;
};

class Gzip final : public Decoder {
 public:
  Gzip() { alive_ = inflateInit2(&stream_, 15 + 16) == Z_OK; }  // the largest window; gzip alone, no bare zlib stream
  ~Gzip() override { inflateEnd(&stream_); }

  Step decode(std::span<const std::byte> from, std::span<std::byte> into) override {
    if (!alive_) return {.fault = "zlib could not be started"};
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));  // zlib does not write to it
    stream_.avail_in = static_cast<uInt>(from.size());
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    const auto status = inflate(&stream_, Z_NO_FLUSH);
    Step step{.consumed = from.size() - stream_.avail_in, .produced = into.size() - stream_.avail_out};
    step.frame_is_over = status == Z_STREAM_END;
    if (step.frame_is_over) inflateReset(&stream_);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
      step.fault = stream_.msg != nullptr ? stream_.msg : "zlib refuses it";
    return step;
  }

 private:
  z_stream stream_{};
  bool alive_ = false;
};

class Zstd final : public Decoder {
 public:
  Zstd() : context_(ZSTD_createDCtx()) { ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kWindowLog); }
  ~Zstd() override { ZSTD_freeDCtx(context_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  Step decode(std::span<const std::byte> from, std::span<std::byte> into) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    const auto left = ZSTD_decompressStream(context_, &out, &in);
    if (ZSTD_isError(left)) return {.fault = ZSTD_getErrorName(left)};
    return {.consumed = in.pos, .produced = out.pos, .frame_is_over = left == 0};
  }

 private:
  static constexpr int kWindowLog = 27;  // 128 MiB of memory at most, what `zstd -d` takes without being told more

  ZSTD_DCtx* context_;
};

class UnpackedFile final : public ByteSource {
 public:
  UnpackedFile(const fs::path& path, std::unique_ptr<Decoder> decoder)
      : file_(path), decoder_(std::move(decoder)), buffer_(size_t{256} << 10) {}

  size_t read(std::span<std::byte> into) override {
    // Z_BUF_ERROR and zstd's buffers: input may be consumed without output, and output may come without input.
    while (true) {
      if (begin_ == end_ && offset_ < file_.size()) fill();
      const bool at_end = begin_ == end_;
      if (at_end && between_frames_) {
        if (file_.size() == 0) refuse("it is empty");
        return 0;
      }
      const auto step = decoder_->decode(std::span(buffer_).subspan(begin_, end_ - begin_), into);
      if (step.fault != nullptr) refuse(text(step.fault, ", after byte ", offset_ - (end_ - begin_)));
      begin_ += step.consumed;
      produced_ += step.produced;
      between_frames_ = step.frame_is_over;
      if (produced_ > std::max<uint64_t>(kMaxUnpacking * file_.size(), uint64_t{64} << 20))
        throw io::FormatError(text(file_.path().string(), ": it unpacks to more than ", kMaxUnpacking,
                                   " times its size; unpack the file yourself if that is right"));
      if (step.produced > 0) return step.produced;
      if (at_end) refuse("it ends in the middle of the compressed data; is the file complete?");
    }
  }
  uint64_t position() const override { return offset_; }

 private:
  void fill() {
    begin_ = 0;
    end_ = std::min<uint64_t>(buffer_.size(), file_.size() - offset_);
    file_.read_at(offset_, std::span(buffer_).first(end_));
    offset_ += end_;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw io::FormatError(text(file_.path().string(), ": the file cannot be unpacked: ", why));
  }

  io::InputFile file_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is read and not decoded
  uint64_t offset_ = 0, produced_ = 0;
  bool between_frames_ = true;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const fs::path& path, Compression compression) {
  if (compression == Compression::gzip) return std::make_unique<UnpackedFile>(path, std::make_unique<Gzip>());
  if (compression == Compression::zstd) return std::make_unique<UnpackedFile>(path, std::make_unique<Zstd>());
  return std::make_unique<PlainFile>(path);
}

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
