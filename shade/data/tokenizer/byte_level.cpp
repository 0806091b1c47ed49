#include "shade/data/tokenizer/byte_level.h"

#include <array>

namespace shade::data {
namespace {

constexpr unsigned kCharacters = 0x100 + 68;  // 68 bytes are not printable

struct Spelling {
  std::array<unsigned, 256> character{};
  std::array<int, kCharacters> byte{};
};

const Spelling& spelling() {
  static const Spelling table = [] {
    Spelling out;
    out.byte.fill(-1);
    unsigned next = 0x100;
    for (unsigned b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD);
      out.character[b] = printable ? b : next++;
      out.byte[out.character[b]] = static_cast<int>(b);
    }
    return out;
  }();
  return table;
}

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    auto character = static_cast<unsigned>(static_cast<unsigned char>(token[i]));
    if (character >= 0x80) {  // of two bytes, or it is none of ours
      if ((character & 0xE0) != 0xC0 || i + 1 == token.size()) return std::nullopt;
      character = (character & 0x1F) << 6 | (static_cast<unsigned>(token[++i]) & 0x3F);
    }
    if (character >= kCharacters || spelling().byte[character] < 0) return std::nullopt;
    out += static_cast<char>(spelling().byte[character]);
  }
  return out;
}

std::string token_of_byte(unsigned char byte) {
  const auto character = spelling().character[byte];
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace shade::data
