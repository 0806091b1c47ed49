#include "shade/base/error.h"
#include "shade/data/chat/chat_styles.h"

namespace shade::data {
namespace {

// Llama 3.2's template writes the day on which it runs, if it can tell, and else this day, which 3.1's and 3.3's always
// write. Here it is always this one: a run must read the same text tomorrow.
constexpr std::string_view kDates = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

std::string header(std::string_view role) { return text("<|start_header_id|>", role, "<|end_header_id|>\n\n"); }

}  // namespace

void write_turns(const Llama3Style& style, const Conversation& conversation, ChatWriter& out) {
  auto messages = conversation.messages;
  out.prompt(conversation.bos);
  if (style.dated) {
    const bool said = is_system(messages[0]);
    out.prompt(text(header("system"), kDates, said ? strip(messages[0].content) : "", "<|eot_id|>"));
    if (said) messages = messages.subspan(1);
  }
  for (const auto& message : messages) {
    const auto turn = text(strip(message.content), "<|eot_id|>");
    out.prompt(header(message.role));
    if (is_assistant(message)) {
      out.answer(turn);
    } else {
      out.prompt(turn);
    }
  }
  if (conversation.generation_prompt) out.prompt(header("assistant"));
}

std::string turns_jinja(const Llama3Style& style) {
  std::string out = "{{- bos_token }}\n";
  if (style.dated)
    out +=
        "{%- set turns = messages %}\n"
        "{{- '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\n"
        "Today Date: 26 Jul 2024\\n\\n' }}\n"
        "{%- if messages[0].role == 'system' %}\n"
        "    {{- messages[0].content|trim }}\n"
        "    {%- set turns = messages[1:] %}\n"
        "{%- endif %}\n"
        "{{- '<|eot_id|>' }}\n";
  return out + text("{%- for message in ", style.dated ? "turns" : "messages", " %}\n") +
         "    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content|trim + "
         "'<|eot_id|>' }}\n"
         "{%- endfor %}\n"
         "{%- if add_generation_prompt %}\n"
         "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
         "{%- endif %}";
}

}  // namespace shade::data
