#include "shade/data/tokenizer/tokenizer.h"

#include <filesystem>

#include "shade/base/error.h"
#include "shade/data/strict_document.h"
#include "shade/data/tokenizer/bpe_tokenizer.h"
#include "shade/io/errors.h"
#include "shade/io/model_file.h"

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

namespace {

namespace fs = std::filesystem;

// What `read` makes of the file's text, with the file's name in what it throws.
template <class Read>
auto read_file(const fs::path& path, size_t most, const Read& read) {
  const auto words = io::read_model_text(path.parent_path(), path.filename(), most);
  try {
    return read(words);
  } catch (const io::FormatError& fault) {
    throw io::FormatError(text(path, " is not a tokenizer that is read here: ", fault.what()));
  }
}

// "eos_token": "<|end|>", or {"content": "<|end|>", ...}
std::optional<std::string> token_name(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && found->at("content").is_string())
    return found->at("content").get<std::string>();
  throw io::FormatError(text("\"", key, "\" must be a string or an object with \"content\""));
}

TextEnds read_ends(const fs::path& config) {
  if (!io::has_model_file(config.parent_path(), config.filename())) return {};
  return read_file(config, io::kMaxModelText, [](std::string_view json) {
    const auto document = read_strict_document(json, "file");
    if (!document.is_object()) throw io::FormatError("the file must be an object");
    return TextEnds{token_name(document, "eos_token"), token_name(document, "pad_token")};
  });
}

}  // namespace

fs::path tokenizer_path(const std::string& place) {
  fs::path path = place;
  if (fs::is_directory(path)) path /= "tokenizer.json";
  SHADE_REQUIRE(fs::exists(path), "no tokenizer at ", path, "; expected a tokenizer.json or its folder");
  return path;
}

std::shared_ptr<const Tokenizer> read_tokenizer(const std::string& place) {
  const auto path = tokenizer_path(place);
  const auto ends = read_ends(path.parent_path() / "tokenizer_config.json");
  return read_file(path, kMaxTokenizer,
                   [&](std::string_view json) { return std::make_shared<const BpeTokenizer>(json, ends); });
}

}  // namespace shade::data
