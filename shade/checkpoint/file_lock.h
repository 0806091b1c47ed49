// One writer at a time, by flock: it goes with the process however that ends.
#pragma once

#include <filesystem>

namespace shade::checkpoint {

class FileLock {
 public:
  // Makes the file if there is none. Throws UsageError if another process (or another lock of this one) has it.
  FileLock(const std::filesystem::path& file, const char* owner);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  int descriptor() const { return descriptor_; }  // open for reading and appending

 private:
  int descriptor_ = -1;
};

}  // namespace shade::checkpoint
