#include "shade/base/error.h"
#include "shade/data/chat/chat_styles.h"
#include "shade/io/errors.h"

namespace shade::data {

using System = MistralStyle::System;

void write_turns(const MistralStyle& style, const Conversation& conversation, ChatWriter& out) {
  auto messages = conversation.messages;
  std::string system;
  if (style.system != System::refused && is_system(messages[0])) {
    system = messages[0].content + "\n\n";
    messages = messages.subspan(1);
  }
  require_alternating(messages, conversation.messages.size() - messages.size());
  out.prompt(conversation.bos);
  const auto with_system = style.system == System::in_first ? 0 : messages.size() - 1;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view content = messages[i].content;
    if (is_user(messages[i])) {
      out.prompt(text(style.open, i == with_system ? system : "", content, style.close));
    } else if (is_assistant(messages[i])) {
      out.answer(text(style.before_answer, style.trim_answer ? strip(content) : content, conversation.eos));
      out.prompt(style.after_answer);
    } else {
      throw io::FormatError(text("a message of the conversation has the role \"", messages[i].role,
                                 "\"; the model's chat template knows it only ",
                                 style.system == System::refused ? "as user and assistant" : "as the first message"));
    }
  }
}

std::string turns_jinja(const MistralStyle& style) {
  const bool system = style.system != System::refused;
  const auto first = style.system == System::in_first;
  std::string out = system ? "{%- set turns = messages %}\n{%- set system = '' %}\n"
                             "{%- if messages[0].role == 'system' %}\n"
                             "    {%- set system = messages[0].content + '\\n\\n' %}\n"
                             "    {%- set turns = messages[1:] %}\n"
                             "{%- endif %}\n"
                           : "{%- set turns = messages %}\n";
  out +=
      "{{- bos_token }}\n"
      "{%- for message in turns %}\n"
      "    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}\n"
      "        {{- raise_exception('user and assistant must take turns, the user first') }}\n"
      "    {%- endif %}\n"
      "    {%- if message.role == 'user' %}\n";
  const std::string with = system ? text(" + (system if loop.", first ? "first" : "last", " else '')") : "";
  out += text("        {{- '", style.open, "'", with, " + message.content + '", style.close, "' }}\n");
  out += "    {%- elif message.role == 'assistant' %}\n";
  out += text("        {{- '", style.before_answer, "' + message.content", style.trim_answer ? "|trim" : "",
              " + eos_token + '", style.after_answer, "' }}\n");
  return out +
         "    {%- else %}\n"
         "        {{- raise_exception('unknown role ' + message.role) }}\n"
         "    {%- endif %}\n"
         "{%- endfor %}";
}

}  // namespace shade::data
