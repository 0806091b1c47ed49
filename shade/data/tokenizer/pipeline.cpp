#include "shade/data/tokenizer/pipeline.h"

#include "shade/base/error.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

// The pattern of a ByteLevel that cuts by itself, as GPT-2's did.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// {"String": "x"}; a regular expression is refused.
const std::string& plain_pattern(const Document& step, const char* what) {
  const auto& pattern = object_in(step, "pattern");
  if (!pattern.contains("String")) refuse(text("a Replace by a regular expression in the ", what, " is not read here"));
  const auto& words = words_in(pattern, "String");
  if (words.empty()) refuse(text("a Replace of the empty text in the ", what));
  return words;
}

void read_normalizer(const Document& file, Pipeline& out) {
  using Kind = NormalizerStep::Kind;
  for (const auto& step : steps_of(member(file, "normalizer"), "normalizer", "normalizers")) {
    const auto type = type_of(step, "normalizer");
    if (type == "NFC") {
      out.normalizer.push_back({.kind = Kind::nfc});
    } else if (type == "Prepend") {
      out.normalizer.push_back({.kind = Kind::prepend, .to = words_in(step, "prepend")});
    } else if (type == "Replace") {
      out.normalizer.push_back(
          {.kind = Kind::replace, .from = plain_pattern(step, "normalizer"), .to = words_in(step, "content")});
    } else {
      refuse(text("the normalizer ", io::quote(type), " is not read here; expected NFC, Prepend or Replace"));
    }
  }
}

std::string split_pattern(const Document& step) {
  if (words_in(step, "behavior") != "Isolated")
    refuse(text("a Split of behavior ", io::quote(words_in(step, "behavior")), "; only Isolated is read here"));
  require_false(step, "invert");
  return words_in(object_in(step, "pattern"), "Regex");
}

Metaspace metaspace_of(const Document& step, Pipeline& out) {
  using Prepend = Metaspace::Prepend;
  Metaspace space;
  space.replacement = words_in(step, "replacement");
  if (space.replacement.empty()) refuse("the replacement of a Metaspace is empty");
  if (const auto& scheme = member(step, "prepend_scheme"); scheme.is_null())
    space.prepend = truth_in(step, "add_prefix_space", true) ? Prepend::always : Prepend::never;
  else if (scheme == "first" || scheme == "always" || scheme == "never")
    space.prepend = scheme == "first" ? Prepend::first : scheme == "always" ? Prepend::always : Prepend::never;
  else
    refuse("the prepend_scheme of a Metaspace is none of first, always and never");
  if (truth_in(step, "split", true)) {
    if (space.replacement != "▁") refuse("a Metaspace that splits at another character than '▁' is not read here");
    out.patterns.emplace_back("▁[^▁]*");
  }
  return space;
}

void read_pre_tokenizer(const Document& file, Pipeline& out) {
  for (const auto& step : steps_of(member(file, "pre_tokenizer"), "pre_tokenizer", "pretokenizers")) {
    const auto type = type_of(step, "pre_tokenizer");
    if (out.byte_level || out.metaspace) refuse("ByteLevel or Metaspace must be the last pre_tokenizer");
    if (type == "Split") {
      out.patterns.push_back(split_pattern(step));
    } else if (type == "Digits") {
      out.patterns.emplace_back(truth_in(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+");
    } else if (type == "ByteLevel") {
      out.byte_level = true;
      require_false(step, "add_prefix_space", true);
      if (truth_in(step, "use_regex", true)) out.patterns.emplace_back(kGpt2Pattern);
    } else if (type == "Metaspace") {
      if (!out.patterns.empty()) refuse("Metaspace must be the only pre_tokenizer");
      out.metaspace = metaspace_of(step, out);
    } else {
      refuse(text("the pre_tokenizer ", io::quote(type),
                  " is not read here; expected Split, Digits, ByteLevel or Metaspace"));
    }
  }
}

void read_decoder(const Document& file, Pipeline& out) {
  const bool bytes = out.byte_level;
  for (const auto& step : steps_of(member(file, "decoder"), "decoder", "decoders")) {
    const auto type = type_of(step, "decoder");
    if (bytes ? type == "ByteLevel" : type == "ByteFallback" || type == "Fuse") continue;
    if (!bytes && type == "Replace") {
      if (out.replaced) refuse("the decoder replaces twice");
      out.replaced = {plain_pattern(step, "decoder"), words_in(step, "content")};
    } else if (!bytes && type == "Strip") {
      if (words_in(step, "content") != " " || member(step, "start") != 1 || member(step, "stop") != 0)
        refuse("a Strip of the decoder that is not of one space at the start is not read here");
      out.strips_space = true;
    } else {
      refuse(text("the decoder ", io::quote(type), " is not read here; expected ",
                  bytes ? "ByteLevel" : "Replace, ByteFallback, Fuse or Strip"));
    }
  }
}

}  // namespace

Pipeline read_pipeline(const Document& file) {
  Pipeline out;
  read_normalizer(file, out);
  read_pre_tokenizer(file, out);
  if (!out.byte_level && !truth_in(object_in(file, "model"), "byte_fallback", false))
    refuse("the tokenizer has neither the pre_tokenizer ByteLevel nor byte_fallback; others are not read here");
  if (!out.byte_level && !out.metaspace && !out.patterns.empty())
    refuse("a Split or Digits without ByteLevel is not read here");
  read_decoder(file, out);
  return out;
}

void refuse(std::string_view what) { throw io::FormatError(std::string(what)); }

const Document& member(const Document& object, const std::string& name) {
  static const Document kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

const Document& object_in(const Document& parent, const std::string& name) {
  const auto& value = member(parent, name);
  if (!value.is_object()) refuse(text("'", name, "' must be an object"));
  return value;
}

const Document& array_in(const Document& parent, const std::string& name) {
  const auto& value = member(parent, name);
  if (!value.is_array()) refuse(text("'", name, "' must be an array"));
  return value;
}

bool truth_in(const Document& parent, const std::string& name, bool otherwise) {
  const auto& value = member(parent, name);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) refuse(text("'", name, "' must be true or false"));
  return value.get<bool>();
}

const std::string& words_in(const Document& parent, const std::string& name) {
  const auto& value = member(parent, name);
  if (!value.is_string()) refuse(text("'", name, "' must be a string"));
  return value.get_ref<const std::string&>();
}

TokenId id_of(const Document& value, std::string_view token) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(kMaxTokenId))
    refuse(text("the id of ", io::quote(token), " must be a whole number up to ", kMaxTokenId));
  return static_cast<TokenId>(value.get<uint64_t>());
}

void require_false(const Document& part, const char* name, bool otherwise) {
  if (truth_in(part, name, otherwise)) refuse(text("'", name, "' is true, which is not read here"));
}

std::string type_of(const Document& step, const char* what) {
  if (!step.is_object()) refuse(text("the ", what, " must be an object"));
  return words_in(step, "type");
}

std::vector<Document> steps_of(const Document& step, const char* what, const char* list) {
  if (step.is_null()) return {};
  if (type_of(step, what) != "Sequence") return {step};
  const auto& steps = array_in(step, list);
  return {steps.begin(), steps.end()};
}

}  // namespace shade::data
