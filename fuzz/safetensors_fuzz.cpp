// Any bytes as a safetensors file: refused with a FormatError, or every tensor lies inside them.
#include <cstddef>
#include <cstdint>
#include <span>

#include "shade/io/errors.h"
#include "shade/io/safetensors_header.h"

namespace {

// Where the compiler can't see that nobody wants what was read.
volatile uint8_t sink;
void touch(std::byte byte) { sink = std::to_integer<uint8_t>(byte); }

}  // namespace

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
