#include "shade/base/error.h"
#include "shade/data/chat/chat_styles.h"
#include "shade/io/errors.h"

namespace shade::data {

void write_turns(const GemmaStyle& style, const Conversation& conversation, ChatWriter& out) {
  auto messages = conversation.messages;
  std::string system;
  if (is_system(messages[0])) {
    if (!style.system)
      throw io::FormatError(
          "the conversation has a system message, which the model's chat template refuses; put it into the first "
          "message of the user");
    system = messages[0].content + "\n\n";
    messages = messages.subspan(1);
  }
  require_alternating(messages, conversation.messages.size() - messages.size());
  out.prompt(conversation.bos);
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto turn = text(strip(messages[i].content), "<end_of_turn>");
    if (is_assistant(messages[i])) {
      out.prompt("<start_of_turn>model\n");
      out.answer(turn);
    } else {
      out.prompt(text("<start_of_turn>", messages[i].role, "\n", i == 0 ? system : "", turn));
    }
    out.prompt("\n");
  }
  if (conversation.generation_prompt) out.prompt("<start_of_turn>model\n");
}

std::string turns_jinja(const GemmaStyle& style) {
  const std::string take_system =
      style.system ? "    {%- set system = messages[0].content + '\\n\\n' %}\n    {%- set turns = messages[1:] %}\n"
                   : "    {{- raise_exception('a system message is not supported') }}\n";
  return "{%- set turns = messages %}\n{%- set system = '' %}\n"
         "{%- if messages[0].role == 'system' %}\n" +
         take_system +
         "{%- endif %}\n"
         "{{- bos_token }}\n"
         "{%- for message in turns %}\n"
         "    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}\n"
         "        {{- raise_exception('user and assistant must take turns, the user first') }}\n"
         "    {%- endif %}\n"
         "    {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' + "
         "(system if loop.first else '') + message.content|trim + '<end_of_turn>\\n' }}\n"
         "{%- endfor %}\n"
         "{%- if add_generation_prompt %}\n"
         "    {{- '<start_of_turn>model\\n' }}\n"
         "{%- endif %}";
}

}  // namespace shade::data
