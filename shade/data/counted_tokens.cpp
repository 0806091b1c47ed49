#include "shade/data/counted_tokens.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shade::data {

void CountedWriter::add(std::span<const uint8_t> counted) {
  if (!file_) {
    if (std::ranges::find(counted, 0) == counted.end()) {
      tokens_ += counted.size();
      return;
    }
    file_.emplace(path_);
    for (auto before = std::exchange(tokens_, 0); before > 0; --before) add_bit(true);
  }
  for (const auto one : counted) add_bit(one != 0);
}

void CountedWriter::add_bit(bool counted) {
  if (counted) bits_ |= static_cast<uint8_t>(1U << (tokens_ % 8));
  if (++tokens_ % 8 == 0) file_->add(std::as_bytes(std::span(&bits_, 1))), bits_ = 0;
}

std::string CountedWriter::commit() {
  if (!file_) return {};
  if (tokens_ % 8 != 0) file_->add(std::as_bytes(std::span(&bits_, 1)));
  return file_->commit();
}

void read_counted(const io::InputFile& file, uint64_t begin, std::span<uint8_t> counted) {
  if (counted.empty()) return;
  const auto first = begin / 8;
  std::vector<std::byte> bytes(counted_bytes(begin + counted.size()) - first);
  file.read_at(first, bytes);
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto bit = begin - first * 8 + i;
    counted[i] = static_cast<uint8_t>(std::to_integer<unsigned>(bytes[bit / 8]) >> (bit % 8) & 1U);
  }
}

}  // namespace shade::data
