// A file that only its owner reads, appended to through a buffer and summed.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "shade/base/files.h"
#include "shade/hash/digest.h"

namespace shade::data {

class Appender {
 public:
  explicit Appender(const std::filesystem::path& path) : file_(path, file_mode(Readers::owner)) {}
  void add(std::span<const std::byte> bytes);
  std::string commit();  // the digest, as hex

 private:
  void flush();

  NewFile file_;
  uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
  hash::Hasher hasher_;
};

}  // namespace shade::data
