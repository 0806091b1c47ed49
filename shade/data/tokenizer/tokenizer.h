// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shade::data {

using TokenId = int32_t;

// Const methods are thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text`, which is UTF-8; nothing is added before or after it.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) const = 0;
  // What the ids stand for. Special tokens are shown only if asked for. Not always UTF-8: ids may cut a character.
  virtual std::string decode(std::span<const TokenId> ids, bool special = false) const = 0;

  virtual int64_t vocab() const = 0;               // every id is below it
  virtual std::optional<TokenId> bos() const = 0;  // set before every text, if there is one
  virtual TokenId eos() const = 0;                 // set after every text
  virtual TokenId pad() const = 0;                 // fills what no text fills; masked
  virtual std::string fingerprint() const = 0;     // of all that decides the ids of a text, without its ends
  virtual std::string describe() const = 0;
};

// Every byte is a token: ids 0-255, then pad 256, bos 257, eos 258. Needs no file, knows every text.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr TokenId kPad = 256, kBos = 257, kEos = 258;

  void encode(std::string_view text, std::vector<TokenId>& ids) const override;
  std::string decode(std::span<const TokenId> ids, bool special) const override;
  int64_t vocab() const override { return 259; }
  std::optional<TokenId> bos() const override { return kBos; }
  TokenId eos() const override { return kEos; }
  TokenId pad() const override { return kPad; }
  std::string fingerprint() const override { return "bytes"; }
  std::string describe() const override { return "bytes"; }
};

}  // namespace shade::data
