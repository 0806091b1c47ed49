#include "shade/data/tokenizer/tokenizer_file.h"

#include <algorithm>
#include <set>

#include "shade/base/error.h"
#include "shade/data/strict_document.h"
#include "shade/data/tokenizer/characters.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

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
  if (!member(model, "dropout").is_null()) refuse("'dropout' is set, which is not read here");
  for (const char* absent : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto& value = member(model, absent); !value.is_null() && value != "")
      refuse(text("'", absent, "' is set, which is not read here"));
  if (spec.pipeline.byte_level) require_false(model, "byte_fallback");
  if (!member(model, "unk_token").is_null()) spec.unknown = words_in(model, "unk_token");
  spec.fuse_unknown = truth_in(model, "fuse_unk", false);
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
    spec.added.push_back({.id = id_of(member(entry, "id"), content),
                          .content = content,
                          .special = truth_in(entry, "special", false),
                          .normalized = truth_in(entry, "normalized", true),
                          .single_word = truth_in(entry, "single_word", false),
                          .lstrip = truth_in(entry, "lstrip", false),
                          .rstrip = truth_in(entry, "rstrip", false)});
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
  spec.pipeline = read_pipeline(file);
  read_model(file, spec);
  read_added(file, spec);
  read_post_processor(file, spec);
  return spec;
}

void AddedTokens::add(AddedToken token) {
  auto& entries = by_first_byte_[static_cast<unsigned char>(token.content.at(0))];
  const auto place = std::find_if(entries.begin(), entries.end(),
                                  [&](const AddedToken& entry) { return entry.content.size() < token.content.size(); });
  entries.insert(place, std::move(token));
  empty_ = false;
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, size_t& at, size_t done) const {
  const auto here = [&]() -> const AddedToken* {
    for (const auto& token : by_first_byte_[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(token.content)) return &token;
    return nullptr;
  };
  while (!empty_ && at < text.size()) {
    const auto* token = here();
    auto begin = at, end = at + (token == nullptr ? 1 : token->content.size());
    at = end;
    if (token == nullptr) continue;
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
    if (token->lstrip) begin = std::max(done, begin - spaces_at_end(text.substr(0, begin)));
    if (token->rstrip) end += spaces_at_start(text.substr(end));
    return Found{begin, end, token->id};
  }
  return std::nullopt;
}

}  // namespace shade::data
