// Which tokens of a store count in the loss: a file of one bit per token, that of token 0 the lowest of byte 0. There
// is no file if all tokens count.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "shade/data/appender.h"
#include "shade/io/input_file.h"

namespace shade::data {

class CountedWriter {
 public:
  explicit CountedWriter(std::filesystem::path path) : path_(std::move(path)) {}

  // The next tokens: 1 if it counts, else 0.
  void add(std::span<const uint8_t> counted);
  // The digest of the file, as hex; empty: all tokens count, and there is none.
  std::string commit();

 private:
  void add_bit(bool counted);

  std::filesystem::path path_;
  std::optional<Appender> file_;  // from the first token on that does not count
  uint64_t tokens_ = 0;
  uint8_t bits_ = 0;  // of the byte that is not full
};

inline uint64_t counted_bytes(uint64_t tokens) { return (tokens + 7) / 8; }

// Of tokens [begin, begin + counted.size()).
void read_counted(const io::InputFile& file, uint64_t begin, std::span<uint8_t> counted);

}  // namespace shade::data
