// BPE from a tokenizer.json: the ids of Hugging Face's `tokenizers`, token for token.
//
//   text -> added tokens are cut out -> normalized -> words by the patterns -> symbols joined by the merges -> ids
#pragma once

#include <filesystem>
#include <unordered_map>

#include "shade/data/tokenizer/normalizer.h"
#include "shade/data/tokenizer/regex.h"
#include "shade/data/tokenizer/vocabulary.h"

namespace shade::data {

struct TextEnds {
  std::optional<std::string> eos, pad;  // tokens by name; none: guessed from known names, the template; pad is eos
};

class BpeTokenizer final : public Tokenizer {
 public:
  // Throws io::FormatError: no byte has a token, a merge joins what is none, the end of a text is not known.
  BpeTokenizer(std::string_view json, const TextEnds& ends);

  void encode(std::string_view text, std::vector<TokenId>& ids) const override;
  std::string decode(std::span<const TokenId> ids, bool special) const override;
  int64_t vocab() const override { return static_cast<int64_t>(tokens_.size()); }
  std::optional<TokenId> bos() const override { return bos_; }
  TokenId eos() const override { return eos_; }
  TokenId pad() const override { return pad_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::string describe() const override;

 private:
  enum class Kind : uint8_t { none, plain, special };
  struct Token {
    std::string bytes;
    Kind kind = Kind::none;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view words) const { return std::hash<std::string_view>()(words); }
  };

  BpeTokenizer(const TokenizerSpec& spec, const TextEnds& ends, std::string fingerprint);
  BpeTokenizer(const TokenizerSpec& spec, const TokenNames& names, const TextEnds& ends, std::string fingerprint);
  void place(TokenId id, std::string bytes, Kind kind);
  void add(AddedToken token, const TokenNames& names);
  void set_ends(const TokenizerSpec& spec, const TokenNames& names, const TextEnds& ends);

  // Parts of a text: without added tokens as written; normalized and without any; words. `first`: its beginning.
  void encode_part(std::string_view part, bool first, std::vector<TokenId>& ids) const;
  void encode_plain(std::string_view plain, bool first, std::vector<TokenId>& ids) const;
  void encode_words(std::string_view words, size_t pattern, std::vector<TokenId>& ids) const;

  std::string fingerprint_;
  Pipeline pipeline_;
  Normalizer normalizer_;
  std::vector<Regex> patterns_;
  Alphabet alphabet_;
  Merges merges_;
  bool ignore_merges_;
  std::vector<Token> tokens_;                                            // by id
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;  // of whole words, for ignore_merges
  AddedTokens as_written_, normalized_;
  std::optional<TokenId> bos_;
  TokenId eos_ = 0, pad_ = 0;
};

inline constexpr size_t kMaxTokenizer = size_t{256} << 20;  // bytes of a tokenizer.json

// The file that a place names: itself, or the tokenizer.json of a folder. Throws UsageError if there is none.
std::filesystem::path tokenizer_path(const std::string& place);

// A tokenizer.json, or a folder that has one; eos and pad are named by the tokenizer_config.json beside it, if there is
// one. Throws io::FormatError naming the file.
std::shared_ptr<const Tokenizer> read_tokenizer(const std::string& place);

}  // namespace shade::data
