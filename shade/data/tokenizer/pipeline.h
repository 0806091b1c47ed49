// How a tokenizer.json goes from a text to words and from tokens back to a text.
//
// Two kinds are read. Both end in BPE, of bytes or of characters:
//
//                 byte-level (GPT-2, Llama 3, Qwen, SmolLM)      SentencePiece (Llama 2, Mistral)
//   normalizer    none, NFC                                      none, NFC, Prepend, Replace of a string
//   pre_tokenizer Split by a regular expression (isolated) and   none, Metaspace
//                 Digits, any number of them, then ByteLevel
//   decoder       none, ByteLevel                                Replace of a string, ByteFallback, Fuse, Strip of one
//                                                                space at the start
// Sequences of these are read too; what is not in the table is refused by name, not skipped.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

// Parts of a tokenizer.json by name and type. What has another type is an io::FormatError that names it.
using Document = nlohmann::json;

inline constexpr TokenId kMaxTokenId = (1 << 24) - 1;

[[noreturn]] void refuse(std::string_view what);

// A member of an object; null if it has none.
const Document& member(const Document& object, const std::string& name);
const Document& object_in(const Document& parent, const std::string& name);
const Document& array_in(const Document& parent, const std::string& name);
bool truth_in(const Document& parent, const std::string& name, bool otherwise);
const std::string& words_in(const Document& parent, const std::string& name);
TokenId id_of(const Document& value, std::string_view token);

void require_false(const Document& part, const char* name, bool otherwise = false);

// A step of the way from text to tokens or back: {"type": "NFC", ...}.
std::string type_of(const Document& step, const char* what);
// A step that is a sequence of steps, or one; none if it is null.
std::vector<Document> steps_of(const Document& step, const char* what, const char* list);

struct NormalizerStep {
  enum class Kind { nfc, prepend, replace } kind = Kind::nfc;
  std::string from{}, to{};  // prepend: `to` before a text that is not empty; replace: every `from` by `to`
};

// Spaces as a visible character, and one before the text unless it begins with one.
struct Metaspace {
  enum class Prepend { never, first, always } prepend = Prepend::always;  // first: before a text's first part alone
  std::string replacement = "▁";
};

struct Pipeline {
  std::vector<NormalizerStep> normalizer;
  std::vector<std::string> patterns;  // words are cut by the first one, each piece by the next
  bool byte_level = false;            // otherwise characters, and bytes of those that have no token
  std::optional<Metaspace> metaspace;
  // Back from tokens: in each `from` is replaced by `to`, and one space is taken from the start of all.
  std::optional<std::pair<std::string, std::string>> replaced;
  bool strips_space = false;
};

// Throws io::FormatError.
Pipeline read_pipeline(const Document& file);

}  // namespace shade::data
