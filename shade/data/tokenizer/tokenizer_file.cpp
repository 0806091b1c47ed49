#include "shade/data/tokenizer/tokenizer_file.h"

#include <set>

#include "shade/base/error.h"
#include "shade/data/strict_document.h"
#include "shade/io/errors.h"
#include "shade/io/untrusted_text.h"

namespace shade::data {
namespace {

using Document = nlohmann::json;

// The pattern of a ByteLevel that cuts by itself, as GPT-2's did.
constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

[[noreturn]] void refuse(std::string_view what) { throw io::FormatError(std::string(what)); }

// A member of an object; null if it has none.
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

std::string type_of(const Document& part, const char* what) {
  if (!part.is_object()) refuse(text("the ", what, " must be an object"));
  return words_in(part, "type");
}

void require_false(const Document& part, const char* name, bool otherwise = false) {
  if (truth_in(part, name, otherwise)) refuse(text("'", name, "' is true, which is not read here"));
}

// A step that is a sequence of steps, or one; none if it is null.
std::vector<Document> steps_of(const Document& part, const char* what, const char* list) {
  if (part.is_null()) return {};
  if (type_of(part, what) != "Sequence") return {part};
  const auto& steps = array_in(part, list);
  return {steps.begin(), steps.end()};
}

void read_normalizer(const Document& file, TokenizerSpec& spec) {
  for (const auto& step : steps_of(member(file, "normalizer"), "normalizer", "normalizers")) {
    if (const auto type = type_of(step, "normalizer"); type != "NFC")
      refuse(text("the normalizer ", io::quote(type), " is not read here; only NFC is"));
    spec.nfc = true;
  }
}

std::string split_pattern(const Document& step) {
  if (words_in(step, "behavior") != "Isolated")
    refuse(text("a Split of behavior ", io::quote(words_in(step, "behavior")), "; only Isolated is read here"));
  require_false(step, "invert");
  return words_in(object_in(step, "pattern"), "Regex");
}

void read_pre_tokenizer(const Document& file, TokenizerSpec& spec) {
  bool bytes = false;
  for (const auto& step : steps_of(member(file, "pre_tokenizer"), "pre_tokenizer", "pretokenizers")) {
    const auto type = type_of(step, "pre_tokenizer");
    if (bytes) refuse("ByteLevel must be the last pre_tokenizer");
    if (type == "Split") {
      spec.patterns.push_back(split_pattern(step));
    } else if (type == "ByteLevel") {
      bytes = true;
      require_false(step, "add_prefix_space", true);
      if (truth_in(step, "use_regex", true)) spec.patterns.emplace_back(kGpt2Pattern);
    } else {
      refuse(text("the pre_tokenizer ", io::quote(type), " is not read here; Split and ByteLevel are"));
    }
  }
  if (!bytes) refuse("the pre_tokenizer has no ByteLevel; only byte-level tokenizers are read");
}

std::pair<std::string, std::string> merge_of(const Document& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& words = merge.get_ref<const std::string&>();
    const auto space = words.find(' ');
    if (space != std::string::npos && words.find(' ', space + 1) == std::string::npos)
      return {words.substr(0, space), words.substr(space + 1)};
  }
  refuse("a merge must be two tokens: [\"a\", \"b\"] or \"a b\"");
}

void read_model(const Document& file, TokenizerSpec& spec) {
  const auto& model = object_in(file, "model");
  if (const auto& type = member(model, "type"); !type.is_null() && type != "BPE")
    refuse("the model is not BPE, the only one read here");
  for (const char* absent : {"dropout", "unk_token"})
    if (!member(model, absent).is_null()) refuse(text("'", absent, "' is set, which is not read here"));
  for (const char* absent : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto& value = member(model, absent); !value.is_null() && value != "")
      refuse(text("'", absent, "' is set, which is not read here"));
  require_false(model, "byte_fallback");
  spec.ignore_merges = truth_in(model, "ignore_merges", false);
  std::set<TokenId> seen;
  for (const auto& [token, id] : object_in(model, "vocab").items()) {
    spec.vocab.emplace_back(token, id_of(id, token));
    if (!seen.insert(spec.vocab.back().second).second)
      refuse(text("two tokens have the id ", spec.vocab.back().second));
  }
  for (const auto& merge : array_in(model, "merges")) spec.merges.push_back(merge_of(merge));
}

void read_added(const Document& file, TokenizerSpec& spec) {
  if (member(file, "added_tokens").is_null()) return;
  for (const auto& entry : array_in(file, "added_tokens")) {
    if (!entry.is_object()) refuse("an added token must be an object");
    const auto& content = words_in(entry, "content");
    if (content.empty()) refuse("an added token is empty");
    for (const char* flag : {"single_word", "lstrip", "rstrip"})
      if (truth_in(entry, flag, false))
        refuse(text("the added token ", io::quote(content), " has ", flag, ", which is not read here"));
    spec.added.push_back({id_of(member(entry, "id"), content), content, truth_in(entry, "special", false),
                          truth_in(entry, "normalized", true)});
  }
}

// {"SpecialToken": {"id": "<bos>"}} with its id from the table of the template.
TokenId template_token(const Document& part, const Document& table) {
  const auto& name = words_in(object_in(part, "SpecialToken"), "id");
  const auto& ids = array_in(object_in(table, name), "ids");
  if (ids.size() != 1) refuse(text("the template's token ", io::quote(name), " must be one id"));
  return id_of(ids[0], name);
}

void read_template(const Document& step, TokenizerSpec& spec) {
  bool behind = false;
  for (const auto& part : array_in(step, "single")) {
    if (!part.is_object() || part.size() != 1) refuse("a part of the template must be an object of one key");
    if (part.contains("Sequence")) {
      if (behind) refuse("the template has the text twice");
      behind = true;
      continue;
    }
    auto& place = behind ? spec.after : spec.before;
    if (place) refuse("the template sets more than one token at an end of the text");
    place = template_token(part, object_in(step, "special_tokens"));
  }
}

void read_post_processor(const Document& file, TokenizerSpec& spec) {
  for (const auto& step : steps_of(member(file, "post_processor"), "post_processor", "processors")) {
    const auto type = type_of(step, "post_processor");
    if (type == "TemplateProcessing")
      read_template(step, spec);
    else if (type != "ByteLevel")
      refuse(text("the post_processor ", io::quote(type), " is not read here; TemplateProcessing and ByteLevel are"));
  }
}

}  // namespace

TokenizerSpec parse_tokenizer(std::string_view json) {
  const auto file = read_strict_document(json, "file");
  if (!file.is_object()) refuse("the file must be an object");
  TokenizerSpec spec;
  read_normalizer(file, spec);
  read_pre_tokenizer(file, spec);
  read_model(file, spec);
  read_added(file, spec);
  read_post_processor(file, spec);
  return spec;
}

}  // namespace shade::data
