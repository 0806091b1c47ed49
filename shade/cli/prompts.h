// What shade generate continues: texts, or conversations that a model answers.
#pragma once

#include "shade/base/config.h"
#include "shade/data/record.h"
#include "shade/serve/opened_model.h"

namespace shade::cli {

struct Prompt {
  std::string words;
  std::vector<data::Message> messages;  // of a conversation, which words are then nothing of

  Json json() const;  // {"prompt": ...} or {"messages": ...}
};

struct PromptConfig {
  std::string prompt, prompt_file, system, chat_template;
  bool chat = false;

  void declare(Fields& f);
  std::vector<Prompt> read() const;  // throws UsageError

  // As the model reads them: texts after its bos, conversations as its chat template writes them.
  std::vector<std::vector<data::TokenId>> encoded(const std::vector<Prompt>& prompts,
                                                  const serve::OpenedModel& model) const;

 private:
  std::vector<Prompt> read_lines(const std::string& content) const;
};

}  // namespace shade::cli
