#include "shade/base/error.h"
#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

void ByteTokenizer::encode(std::string_view text, std::vector<TokenId>& ids) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  ids.insert(ids.end(), bytes, bytes + text.size());
}

std::string ByteTokenizer::decode(std::span<const TokenId> ids, bool special) const {
  static constexpr const char* kNames[] = {"<pad>", "<bos>", "<eos>"};
  std::string out;
  for (const auto id : ids) {
    SHADE_REQUIRE(id >= 0 && id < vocab(), "token ", id, " is not one of the ", vocab(), " of bytes");
    if (id < 256)
      out += static_cast<char>(id);
    else if (special)
      out += kNames[id - 256];
  }
  return out;
}

}  // namespace shade::data
