// A file read by position, for what is too large to hold or to map: memory is the caller's buffer and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "shade/base/descriptor.h"

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

// A file's bytes, mapped and never copied: reading one tensor of a large file costs the pages of that tensor.

// Read-only: a write through its bytes ends the process, it can't reach the file. Shared, so that a tensor that views
// the bytes keeps them. Who cuts a mapped file short ends its readers too (SIGBUS): replace files by renaming, as
// NewFile does.
class MappedFile {
 public:
  // Throws Error naming the file: it can't be opened, or is no regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  // The same of a file that is open for reading, and named `path` in messages. The map stays when it is closed.
  static std::shared_ptr<const MappedFile> map(const Descriptor& file, const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // Takes the pages of this part of bytes() out of the process's memory. Nothing is lost: used again, they are read
  // again. For who copies a large file and would otherwise hold it twice.
  void drop(std::span<const std::byte> part) const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace shade::io
