#include "shade/data/chat/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "shade/base/error.h"
#include "shade/base/names.h"
#include "shade/base/strings.h"
#include "shade/data/chat/chat_styles.h"
#include "shade/data/strict_document.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"
#include "shade/io/model_file.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplate = "chat_template.jinja";

// "chat_template": a text, or a list of {"name", "template"}, of which transformers takes the one named "default".
std::optional<std::string> template_in(const fs::path& folder, const char* name) {
  const auto document = read_strict_document(io::read_model_text(folder, name), "file");
  const auto found = document.is_object() ? document.find("chat_template") : document.end();
  if (found == document.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const auto& entry : *found)
      if (entry.is_object() && entry.value("name", nlohmann::json()) == "default" && entry.contains("template") &&
          entry.at("template").is_string())
        return entry.at("template").get<std::string>();
  throw io::FormatError(
      text(folder / name, ": \"chat_template\" must be a string, or a list with an entry named \"default\""));
}

std::optional<std::string> template_of_folder(const fs::path& folder) {
  if (io::has_model_file(folder, kTemplate)) return io::read_model_text(folder, kTemplate);
  for (const auto* name : {"tokenizer_config.json", "chat_template.json"})
    if (io::has_model_file(folder, name))
      if (auto found = template_in(folder, name)) return found;
  return std::nullopt;
}

const ChatStyle& style_named(const std::string& name) {
  for (const auto& style : chat_styles())
    if (style.name == name) return style;
  const auto names = chat_template_names();
  throw UsageError(text("no chat template has the name '", name, "'; expected one of ", join(names, ", ")));
}

std::string advice() {
  return text("; name the one that the model was trained with: --chat-template ", join(chat_template_names(), ", "));
}

std::string first_line(const std::string& jinja) {
  return io::quote(jinja.substr(0, std::min<size_t>(jinja.find('\n'), 80)));
}

bool is_bytes(const Tokenizer& tokenizer) { return dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr; }

bool is_token(const Tokenizer& tokenizer, std::string_view words) {
  std::vector<TokenId> ids;
  tokenizer.encode(words, ids);
  return ids.size() == 1;
}

}  // namespace

std::vector<std::string> chat_template_names() {
  std::vector<std::string> names;
  for (const auto& style : chat_styles()) names.emplace_back(style.name);
  return names;
}

ChatTemplate::ChatTemplate(const std::string& place, const std::string& name, const Tokenizer& tokenizer) {
  const fs::path folder = fs::is_directory(place) ? fs::path(place) : fs::path(place).parent_path();
  const auto own = is_bytes(tokenizer) ? std::nullopt : template_of_folder(folder);
  const auto* known = own ? recognise_template(*own) : nullptr;
  if (!name.empty()) {
    const auto& style = style_named(name);
    jinja_ = known == &style ? *own : jinja_of(style);
    set_style(style, tokenizer);
  } else if (known != nullptr) {
    jinja_ = *own;
    set_style(*known, tokenizer);
  } else if (own) {
    jinja_ = *own;
    refusal_ = text("the chat template of ", folder, " is not one that is implemented (", first_line(*own),
                    "...; digest ", digest_of_template(*own).substr(0, 16), ")", advice());
  } else {
    refusal_ =
        text("conversations need a chat template, and the ",
             is_bytes(tokenizer) ? "byte tokenizer has none" : text("tokenizer of ", folder, " has none"), advice());
  }
}

void ChatTemplate::set_style(const ChatStyle& style, const Tokenizer& tokenizer) {
  style_ = &style;
  const bool bytes = is_bytes(tokenizer);  // each template is mere text to it
  if (!style.bos.empty())
    bos_ = bytes || !tokenizer.bos() ? std::string(style.bos) : tokenizer.decode({{*tokenizer.bos()}}, true);
  if (!style.eos.empty()) eos_ = bytes ? std::string(style.eos) : tokenizer.decode({{tokenizer.eos()}}, true);
  delimiters_.assign(style.tokens.begin(), style.tokens.end());
  for (const auto& end : {bos_, eos_})
    if (!end.empty()) delimiters_.push_back(end);
  if (!bytes)
    for (const auto& token : delimiters_)
      if (!is_token(tokenizer, token)) {
        refusal_ = text("the chat template '", style.name, "' delimits turns by ", token,
                        ", which is no token of the model's tokenizer", advice());
        return;
      }
  delimiters_.insert(delimiters_.end(), style.delimiters.begin(), style.delimiters.end());
}

std::vector<Part> ChatTemplate::parts(std::span<const Message> conversation, bool generation_prompt) const {
  if (!refusal_.empty()) throw io::FormatError(refusal_);
  if (conversation.empty()) throw io::FormatError("the conversation has no message");
  for (size_t i = 0; i < conversation.size(); ++i) {
    const auto& message = conversation[i];
    if (!is_system(message) && !is_user(message) && !is_assistant(message))
      throw io::FormatError(text("message ", i + 1, " of the conversation has the role ", io::quote(message.role),
                                 "; expected system, user or assistant"));
    for (const auto& delimiter : delimiters_)
      if (message.content.find(delimiter) != std::string::npos)
        throw io::FormatError(text("message ", i + 1, " of the conversation holds ", delimiter,
                                   ", by which the chat template delimits turns: it would be read as one; take it out "
                                   "of the text, or write it apart, as in \"< |\""));
  }
  ChatWriter out;
  write_chat(*style_, {.messages = conversation, .generation_prompt = generation_prompt, .bos = bos_, .eos = eos_},
             out);
  return out.take();
}

std::string ChatTemplate::name() const { return style_ == nullptr ? "" : std::string(style_->name); }

std::string ChatTemplate::fingerprint() const {
  if (style_ == nullptr) return "none";
  return hash::to_hex(hash::digest_of(text(style_->name, '\0', jinja_of(*style_), '\0', bos_, '\0', eos_)));
}

}  // namespace shade::data
