// How a model's conversations are written as text: the chat templates of the families that Shade trains.
//
// Model folders carry a chat template as a Jinja program. Shade runs no such programs: that would be code of untrusted
// files in the data path and one more language to implement, for the few templates that are in use. Those are
// implemented here (chat_styles.h), each equal to what transformers' apply_chat_template writes, and a folder's
// template is recognised by the digest of its text: exactly, so that none is taken for another. A template that is not
// known is refused when the first conversation is read; a user may name one that applies instead.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shade/data/record.h"
#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

struct ChatStyle;  // chat_styles.h

// Const methods are thread-safe.
class ChatTemplate {
 public:
  // The template for texts of `tokenizer`, opened from `place` (a tokenizer.json or its folder). `name`: one of
  // chat_template_names(); empty: that of the folder, chat_template.jinja or the "chat_template" of
  // tokenizer_config.json or chat_template.json. Without a template that is known, and if the tokenizer lacks a token
  // that delimits turns, parts() throws: texts that are no conversations need none. Throws UsageError for a name that
  // is none, io::FormatError for a file that can't be read.
  ChatTemplate(const std::string& place, const std::string& name, const Tokenizer& tokenizer);

  // The conversation as the model reads it, in parts whose texts in a row are the text that transformers writes. What
  // the assistant says is counted, with the token that ends its turn; all else is not. The parts hold their own bos and
  // end-of-turn tokens: nothing is to be set around them. With `generation_prompt`, the beginning of an assistant's
  // turn follows. Throws io::FormatError where the template refuses the conversation (roles that don't alternate, a
  // role it doesn't know), and for a content that holds a token that delimits turns: it would be read as one.
  std::vector<Part> parts(std::span<const Message> conversation, bool generation_prompt = false) const;

  std::string name() const;                            // "chatml", "llama3", ...; empty: none
  std::string fingerprint() const;                     // of all that decides the text of a conversation
  const std::string& jinja() const { return jinja_; }  // its text, for an exported model's folder; empty: none

 private:
  void set_style(const ChatStyle& style, const Tokenizer& tokenizer);

  const ChatStyle* style_ = nullptr;
  std::string bos_, eos_, jinja_;
  std::vector<std::string> delimiters_;  // texts that no content may hold
  std::string refusal_;                  // why there is no style; empty if there is one
};

std::vector<std::string> chat_template_names();

}  // namespace shade::data
