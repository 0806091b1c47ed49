#include "shade/base/error.h"
#include "shade/data/chat/chat_styles.h"

namespace shade::data {
namespace {

constexpr std::string_view kThink = "<think>", kThought = "</think>";
constexpr std::string_view kOpenTool = "<tool_response>", kCloseTool = "</tool_response>";

// What an assistant thought and what it then said; a content without a thought is all said.
struct Answer {
  std::string_view thought, said;
};

Answer split_thought(std::string_view content) {
  const auto first = content.find(kThought);
  if (first == std::string_view::npos) return {{}, content};
  auto thought = strip_newlines_right(content.substr(0, first));
  if (const auto open = thought.rfind(kThink); open != std::string_view::npos)
    thought.remove_prefix(open + kThink.size());
  return {strip_newlines_left(thought), strip_newlines_left(content.substr(content.rfind(kThought) + kThought.size()))};
}

// The last message of the user that is a question, not a tool's reply; without one, the last message.
size_t last_question(std::span<const Message> messages) {
  for (auto i = messages.size(); i-- > 0;) {
    const auto& content = messages[i].content;
    if (is_user(messages[i]) && !(content.starts_with(kOpenTool) && content.ends_with(kCloseTool))) return i;
  }
  return messages.size() - 1;
}

void write_answer(const ChatmlStyle& style, std::span<const Message> messages, size_t i, ChatWriter& out) {
  const std::string_view content = messages[i].content;
  if (!style.thinking) {
    out.answer(content);
    return;
  }
  const auto [thought, said] = split_thought(content);
  const bool recent = i > last_question(messages);
  if (recent && (i + 1 == messages.size() || !thought.empty())) {
    out.answer("<think>\n");
    out.answer(strip_newlines_right(thought));
    out.answer("\n</think>\n\n");
    out.answer(strip_newlines_left(said));
  } else {
    out.answer(said);
  }
}

}  // namespace

void write_turns(const ChatmlStyle& style, const Conversation& conversation, ChatWriter& out) {
  const auto messages = conversation.messages;
  if (style.default_system != nullptr && !is_system(messages[0]))
    out.prompt(text("<|im_start|>system\n", style.default_system, "<|im_end|>\n"));
  for (size_t i = 0; i < messages.size(); ++i) {
    out.prompt(text("<|im_start|>", messages[i].role, "\n"));
    if (is_assistant(messages[i])) {
      write_answer(style, messages, i, out);
      out.answer("<|im_end|>");
    } else {
      out.prompt(messages[i].content);
      out.prompt("<|im_end|>");
    }
    out.prompt("\n");
  }
  if (conversation.generation_prompt) out.prompt("<|im_start|>assistant\n");
}

std::string turns_jinja(const ChatmlStyle& style) {
  std::string out;
  if (style.default_system != nullptr)
    out += text("{%- if messages[0].role != 'system' %}\n    {{- '<|im_start|>system\\n", style.default_system,
                "<|im_end|>\\n' }}\n{%- endif %}\n");
  if (style.thinking)
    out +=
        "{#- Thoughts before the last question are left out; the last answer always has a block for them. #}\n"
        "{%- set last = namespace(question=-1) %}\n"
        "{%- for message in messages %}\n"
        "    {%- if message.role == 'user' and not (message.content.startswith('<tool_response>')"
        " and message.content.endswith('</tool_response>')) %}\n"
        "        {%- set last.question = loop.index0 %}\n"
        "    {%- endif %}\n"
        "{%- endfor %}\n"
        "{%- if last.question < 0 %}{%- set last.question = messages|length - 1 %}{%- endif %}\n";
  out += "{%- for message in messages %}\n    {%- set said = message.content %}\n";
  if (style.thinking)
    out +=
        "    {%- if message.role == 'assistant' %}\n"
        "        {%- set thought = '' %}\n"
        "        {%- if '</think>' in said %}\n"
        "            {%- set thought = said.split('</think>')[0].rstrip('\\n').split('<think>')[-1].strip('\\n') %}\n"
        "            {%- set said = said.split('</think>')[-1].lstrip('\\n') %}\n"
        "        {%- endif %}\n"
        "        {%- if loop.index0 > last.question and (loop.last or thought) %}\n"
        "            {%- set said = '<think>\\n' + thought + '\\n</think>\\n\\n' + said.lstrip('\\n') %}\n"
        "        {%- endif %}\n"
        "    {%- endif %}\n";
  return out +
         "    {{- '<|im_start|>' + message.role + '\\n' + said + '<|im_end|>\\n' }}\n"
         "{%- endfor %}\n"
         "{%- if add_generation_prompt %}\n"
         "    {{- '<|im_start|>assistant\\n' }}\n"
         "{%- endif %}";
}

}  // namespace shade::data
