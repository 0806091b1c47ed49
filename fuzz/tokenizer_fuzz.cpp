// Any bytes as a tokenizer.json with the 256 bytes put into its vocabulary, in both spellings, and as a text for it:
// refused with an Error, or what is encoded decodes to the text again (if nothing normalizes it).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "shade/data/tokenizer/bpe_tokenizer.h"
#include "shade/data/tokenizer/byte_level.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace {

// Few inputs would name all bytes by chance.
std::string with_bytes(std::string_view json) {
  auto file = nlohmann::json::parse(json, nullptr, false);
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object()) return std::string(json);
  auto& vocab = file["model"]["vocab"];
  if (!vocab.is_object()) return std::string(json);
  constexpr const char* kHex = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    vocab.emplace(shade::data::token_of_byte(static_cast<unsigned char>(b)), 1000 + b);
    vocab.emplace(shade::text("<0x", kHex[b / 16], kHex[b % 16], ">"), 2000 + b);
  }
  return file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool changes_texts(const shade::data::TokenizerSpec& spec) {
  return !spec.pipeline.byte_level || !spec.pipeline.normalizer.empty() ||
         std::any_of(spec.added.begin(), spec.added.end(),
                     [](const auto& token) { return token.lstrip || token.rstrip; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shade;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto end = std::min(input.find('\0'), input.size());
  auto words = input.substr(std::min(end + 1, input.size()));
  if (const auto bad = io::first_not_utf8(words)) words = words.substr(0, *bad);
  try {
    const auto file = with_bytes(input.substr(0, end));
    const data::BpeTokenizer tokenizer(file, {});
    std::vector<data::TokenId> ids;
    tokenizer.encode(words, ids);
    const auto decoded = tokenizer.decode(ids, true);
    SHADE_CHECK(decoded == words || changes_texts(data::parse_tokenizer(file)), "decodes to something else");
  } catch (const io::FormatError&) {
  } catch (const Error& fault) {  // a pattern without end
    SHADE_CHECK(std::string_view(fault.what()).find("could not be cut") != std::string_view::npos, fault.what());
  }
  return 0;
}
