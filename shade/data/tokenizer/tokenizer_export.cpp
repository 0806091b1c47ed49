#include "shade/data/tokenizer/tokenizer_export.h"

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/data/tokenizer/bpe_tokenizer.h"
#include "shade/data/tokenizer/byte_level.h"
#include "shade/io/model_file.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

using Document = nlohmann::json;  // sorted: a vocabulary has 100,000 keys

constexpr const char *kTokenizer = "tokenizer.json", *kConfig = "tokenizer_config.json", *kPadName = "<|pad|>";

// A file of the tokenizer's folder that is copied byte by byte.
std::string copied(TokenizerExport& out, const fs::path& folder, const std::string& name) {
  auto words = io::read_model_text(folder, name);
  if (name.ends_with(".json")) io::parse_model_json(words, folder / name);
  out.taken.push_back(folder / name);
  return words;
}

struct Named {
  TokenId id = 0;
  std::string name;
};

std::string name_of(const Document& file, TokenId id) {
  for (const auto& token : file.at("added_tokens"))
    if (token.at("id") == id) return token.at("content");
  for (const auto& [name, number] : file.at("model").at("vocab").items())
    if (number == id) return name;
  throw Error(text("token ", id, " has no name in ", kTokenizer));
}

// Added tokens that stand for no text, other than those that frame one.
std::vector<Named> free_specials(const Document& file, const Tokenizer& tokenizer) {
  std::vector<Named> out;
  for (const auto& token : file.at("added_tokens"))
    if (token.value("special", false) && token.at("id") != tokenizer.eos() && token.at("id") != tokenizer.bos())
      out.push_back({token.at("id"), token.at("content")});
  return out;
}

// Whether the `tokenizers` package gives the next token the id after the last one.
bool is_dense(const Document& file, const Tokenizer& tokenizer) {
  const auto& vocab = file.at("model").at("vocab");
  auto count = static_cast<int64_t>(vocab.size());
  for (const auto& token : file.at("added_tokens")) count += vocab.contains(token.at("content")) ? 0 : 1;
  return count == tokenizer.vocab();
}

// Its entry among added_tokens.
Document added(const Named& token) {
  return {{"id", token.id},  {"content", token.name}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false},   {"special", true}};
}

Named add_padding(Document& file, const Tokenizer& tokenizer) {
  const Named out{static_cast<TokenId>(tokenizer.vocab()), kPadName};
  file.at("added_tokens").push_back(added(out));
  return out;
}

// Its own, one that is named so, a new one, or one that is reserved.
Named choose_padding(Document& file, const Tokenizer& tokenizer, const TokenizerUse& use) {
  if (tokenizer.pad() != tokenizer.eos()) return {tokenizer.pad(), name_of(file, tokenizer.pad())};
  const auto specials = free_specials(file, tokenizer);
  for (const auto& token : specials)
    if (token.name.find("pad") != std::string::npos || token.name.find("PAD") != std::string::npos) return token;
  if (tokenizer.vocab() < use.vocab && is_dense(file, tokenizer)) return add_padding(file, tokenizer);
  SHADE_REQUIRE(!specials.empty(), "the tokenizer (", tokenizer.describe(),
                ") has no token for padding but the one that ends a text, at which an exported classifier reads the "
                "class; name a \"pad_token\" in its tokenizer_config.json, or choose --vocab-size ",
                tokenizer.vocab() + 1, " if the model is trained from scratch");
  return specials.back();
}

Document template_part(const std::string& name) { return {{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; }

// [bos] text [eos]
Document framing(const std::optional<Named>& bos, const std::optional<Named>& eos) {
  auto single = Document::array(), tokens = Document::object();
  const auto declare = [&](const Named& token) {
    tokens[token.name] = {{"id", token.name}, {"ids", {token.id}}, {"tokens", {token.name}}};
  };
  if (bos) single.push_back(template_part(bos->name)), declare(*bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (eos) single.push_back(template_part(eos->name)), declare(*eos);
  auto pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  if (eos) pair.push_back(template_part(eos->name));
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

// Every byte is a token with its own number, and there are no merges.
Document byte_document() {
  using Bytes = ByteTokenizer;
  const Document byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Document vocab = Document::object();
  for (int byte = 0; byte < 256; ++byte) vocab[token_of_byte(static_cast<unsigned char>(byte))] = byte;
  Document out{{"version", "1.0"},
               {"added_tokens", Document::array()},
               {"pre_tokenizer", byte_level},
               {"decoder", byte_level},
               {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Document::array()}}}};
  const Named bos{Bytes::kBos, "<|begin_of_text|>"}, eos{Bytes::kEos, "<|end_of_text|>"};
  for (const auto& token : {Named{Bytes::kPad, kPadName}, bos, eos}) out["added_tokens"].push_back(added(token));
  out["post_processor"] = framing(bos, std::nullopt);
  return out;
}

// What lies beside a tokenizer.json and belongs to it.
void add_companions(const fs::path& folder, TokenizerExport& out) {
  for (const char* name : {"special_tokens_map.json", "chat_template.jinja", "chat_template.json"})
    if (io::has_model_file(folder, name)) out.files[name] = copied(out, folder, name);
}

}  // namespace

TokenizerExport export_tokenizer(const std::string& place, const Tokenizer& tokenizer, const TokenizerUse& use) {
  const bool bytes = place.empty() || place == "bytes";
  const auto source = bytes ? fs::path() : tokenizer_path(place);
  const auto folder = source.parent_path();
  auto words = bytes ? byte_document().dump() : io::read_model_text(folder, source.filename(), kMaxTokenizer);
  auto file = Document::parse(words);
  if (!file.contains("added_tokens") || file["added_tokens"].is_null()) file["added_tokens"] = Document::array();
  const bool known = !bytes && io::has_model_file(folder, kConfig);
  TokenizerExport out{.pad = tokenizer.pad(), .files = {}, .taken = {}};
  if (!bytes) out.taken.push_back(source);
  if (!use.classifier && !bytes) add_companions(folder, out);
  if (!use.classifier && known) {
    out.files[kTokenizer] = words;
    out.files[kConfig] = copied(out, folder, kConfig);
    return out;
  }

  const Named eos{tokenizer.eos(), name_of(file, tokenizer.eos())};
  std::optional<Named> bos;
  if (tokenizer.bos()) bos = Named{*tokenizer.bos(), name_of(file, *tokenizer.bos())};
  auto pad = eos;
  auto config = known ? io::read_model_json(folder, kConfig) : Json::object();
  if (known) out.taken.push_back(folder / kConfig);
  if (use.classifier) {
    pad = choose_padding(file, tokenizer, use);
    file["post_processor"] = framing(bos, eos);
    words = file.dump();
    config["model_max_length"] = use.seq_length;
    config["padding_side"] = "right";
    // tokenizer.json has it all; these would put another frame or other tokens in its place.
    for (const char* key : {"add_bos_token", "add_eos_token", "added_tokens_decoder"}) config.erase(key);
  } else if (tokenizer.pad() != tokenizer.eos()) {
    pad = {tokenizer.pad(), name_of(file, tokenizer.pad())};
  }
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (bos) config["bos_token"] = bos->name;
  config["eos_token"] = eos.name;
  config["pad_token"] = pad.name;
  out.pad = pad.id;
  out.files[kTokenizer] = words;
  out.files[kConfig] = config.dump(2);
  return out;
}

}  // namespace shade::data
