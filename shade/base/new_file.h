// A file that appears whole or not at all: written under a temporary name beside its own, flushed to the disk, renamed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

namespace shade {

// Until commit() a reader sees what was there before. Without commit() the temporary file is removed. One thread at a
// time, except that write_at() may be called by several for different ranges.
class NewFile {
 public:
  // Throws Error naming the file, as all members do; the folder must exist. The file has this mode, whatever the umask,
  // and never more; empty: 0666 less the umask. A link or a device of that name is replaced: files of a user's own
  // naming go through output_file.h.
  explicit NewFile(std::filesystem::path path, std::optional<mode_t> mode = std::nullopt);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write_at(uint64_t offset, std::span<const std::byte> bytes);

  // fsync, rename, fsync of the folder: after it returns, the file survives a power cut.
  void commit();

 private:
  [[noreturn]] void fail(const char* step, int fault) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;  // -1: committed
};

}  // namespace shade
