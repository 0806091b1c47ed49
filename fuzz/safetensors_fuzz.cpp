// Any bytes as a safetensors file: refused with a FormatError, or every tensor lies inside them.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shade/io/errors.h"
#include "shade/io/safetensors_header.h"

namespace {

// Where the compiler can't see that nobody wants what was read.
volatile uint8_t sink;
void touch(std::byte byte) { sink = std::to_integer<uint8_t>(byte); }

constexpr size_t kLengthBytes = 8;

// The whole numbers of a header that could be the end of its data.
std::vector<size_t> small_numbers(std::string_view header, size_t most) {
  std::vector<size_t> out;
  for (size_t at = 0; at < header.size(); ++at) {
    size_t number = 0;
    const auto begin = at;
    for (; at < header.size() && std::isdigit(static_cast<unsigned char>(header[at])) != 0; ++at)
      number = std::min(number * 10 + static_cast<size_t>(header[at] - '0'), most + 1);
    if (at > begin && number <= most) out.push_back(number);
  }
  return out;
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Most changes move the end of the header, and the length in front of it is then wrong: nearly every input would stop
// there. So three in four get the right length back, and half of those as much data as some number of the header says.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size <= kLengthBytes || seed % 4 == 0) return size;
  const std::string_view after(reinterpret_cast<const char*>(data) + kLengthBytes, size - kLengthBytes);
  const auto brace = after.rfind('}');
  if (brace == after.npos) return size;
  const auto length = brace + 1;
  for (size_t i = 0; i < kLengthBytes; ++i) data[i] = static_cast<uint8_t>(length >> (8 * i));
  const auto begin = kLengthBytes + length;
  const auto ends = small_numbers(after.substr(0, length), max_size - begin);
  if (seed % 8 < 4 || ends.empty()) return size;
  const auto wanted = begin + ends[seed / 8 % ends.size()];
  if (wanted > size) std::fill(data + size, data + wanted, uint8_t{0});
  return wanted;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shade::io;
  const auto file = std::as_bytes(std::span(data, size));
  SafetensorsHeader header;
  try {
    header = parse_safetensors_header(file);
  } catch (const FormatError& fault) {
    // A message is a line that can be shown: short, and with nothing a terminal obeys.
    const std::string_view message(fault.what());
    SHADE_CHECK(message.size() < 1000 && message.find_first_of("\n\r\t\x1b\x7f") == message.npos, message);
    return 0;
  }
  uint64_t covered = header.data_begin;
  for (const auto& [name, info] : header.tensors) {
    SHADE_CHECK(tensor_size(name, info.dtype, info.shape) == info.size(), "a size that is not shape x dtype");
    SHADE_CHECK(info.end <= size - header.data_begin, "a tensor that reaches outside");
    covered += info.size();
    if (info.size() == 0) continue;
    const auto bytes = file.subspan(header.data_begin + info.begin, info.size());
    touch(bytes.front());
    touch(bytes.back());
  }
  SHADE_CHECK(covered == size, covered, " of ", size, " bytes are accounted for");
  return 0;
}
