// A file read by position, for what is too large to hold or to map: memory is the caller's buffer and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace shade::io {

// Pages of a mapped file count as the process's memory until they are dropped; bytes read here don't. Safe to use from
// several threads.
class InputFile {
 public:
  // Throws Error naming the file: it can't be opened, or is no regular file.
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  // bytes, when it was opened

  // Fills `bytes`. Throws Error if the file ends before: somebody cut it short.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace shade::io
