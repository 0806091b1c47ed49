// What a user says about the data.
#pragma once

#include "shade/base/config.h"
#include "shade/base/effect.h"
#include "shade/base/strings.h"
#include "shade/data/chat/chat_template.h"
#include "shade/data/image_dataset.h"
#include "shade/data/text_dataset.h"

namespace shade::data {

// Where the data is, how it is read, and what a sample is.
struct DataConfig {
  std::string data_folder;  // folder of texts, one file of texts, or a folder of images by class; empty: not set
  std::string tokenizer;    // a tokenizer.json or a folder that has one; empty, "bytes": every byte is a token
  Packing packing = Packing::records;   // of texts
  std::string chat_template;            // of conversations; empty: that of the tokenizer's folder
  LossOn loss_on = LossOn::completion;  // tokens that a language model learns to predict
  TextUnit text_unit = TextUnit::file;  // part of a .txt file that is a record
  FieldNames fields{};                  // empty: found by conventional names
  std::vector<std::string> classes;     // as read_classes reads them; empty: not stated
  bool flip = false;                    // mirror each image with probability 0.5, in training alone
  int64_t max_records = 0;              // number of records to read from the start of the data; 0: all
  std::string cache_folder;             // of the token cache, a copy of the data; empty: .shade in the data folder

  // Options for reading records. `chat` formats conversations as text; null: records with messages are refused.
  RecordOptions record_options(const ChatTemplate* chat = nullptr) const {
    return {.unit = text_unit, .fields = fields, .chat_template = chat};
  }

  // Adds every field with its name, help, unit and range (base/config.h).
  void declare(Fields& f) {
    f.add("data_folder", data_folder,
          {.help = "folder of .txt, .json, .jsonl, .csv, .parquet and .arrow files, or one such file; for images, a "
                   "folder with one folder per class",
           .flags = {"--data-folder"},
           .common = true});
    f.add("tokenizer", tokenizer,
          {.help = "Hugging Face tokenizer.json (BPE) or its folder; bytes: every byte is a token; if not "
                   "set, that of the model's folder in shade train, otherwise bytes",
           .flags = {"--tokenizer"},
           .common = true,
           .needs = {needs_texts()}});
    f.add("packing", packing,
          {.help = "way samples are formed; records: each record is a sample; packed: samples are windows over the "
                   "concatenated records, which a private run must state by --privacy-unit window",
           .flags = {"--packing"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("chat_template", chat_template,
          {.help = text("name of the chat template that formats messages as text, one of ",
                        join(chat_template_names(), ", "), "; if not set, that of the tokenizer's folder"),
           .flags = {"--chat-template"},
           .needs = {needs_texts()}});
    f.add("loss_on", loss_on,
          {.help = "tokens that a language model learns to predict; completion: those of completions and of an "
                   "assistant's turns, and all tokens of plain texts; all: those of prompts too",
           .flags = {"--loss-on"},
           .needs = {{"data.data_folder"}, {kModelKind, {kLanguageModel}}}});
    f.add("text_unit", text_unit,
          {.help = "unit of a .txt file that forms a record",
           .flags = {"--text-unit"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("text_field", fields.text,
          {.help = "name of the field that holds a record's text; if no field is named: text, prompt with completion "
                   "(or response), or messages (or conversations), whichever exists",
           .flags = {"--text-field"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add(
        "prompt_field", fields.prompt,
        {.help =
             "name of the field that holds a record's prompt, which is read but not trained on; needs completion_field",
         .flags = {"--prompt-field"},
         .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("completion_field", fields.completion,
          {.help = "name of the field that holds the text after the prompt, which is trained on",
           .flags = {"--completion-field"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("messages_field", fields.messages,
          {.help = "name of the field that holds a conversation, a list of messages with role and content, formatted "
                   "by the model's chat template",
           .flags = {"--messages-field"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("label_field", fields.label,
          {.help = "name of the field that holds a record's class, required in every record; if not set: label, where "
                   "it exists",
           .flags = {"--label-field"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add(
        "user_field", fields.user,
        {.help =
             "name of the field that identifies a record's user, a string or a whole number, required in every record",
         .flags = {"--user-field"},
         .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("classes", classes,
          {.help = "names of the classes in order, comma-separated, or @FILE with one per line; a model that names its "
                   "classes keeps its own order; required in private runs on labelled records, where the labels that "
                   "occur are not public",
           .flags = {"--classes"},
           .common = true,
           .needs = {{"data.data_folder"}, {kModelKind, {kTextClassifier, kImageModel}}}});
    f.add("flip", flip,
          {.help = "whether to mirror each training image horizontally with probability 0.5; evaluation never does",
           .flags = {"--flip"},
           .needs = {{"data.data_folder"}, needs_images()}});
    f.add("max_records", max_records,
          {.help = "number of records to read from the start of the data; 0: all, as private runs require",
           .unit = "records",
           .min = 0,
           .flags = {"--max-records"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("cache_folder", cache_folder,
          {.help = "folder of the token cache, which is a copy of the data; if not set, .shade in the data folder",
           .flags = {"--cache-folder"},
           .needs = {{"data.data_folder"}, needs_texts()}});
  }
};

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& place);  // empty, "bytes": ByteTokenizer

// Texts of `seq_length` tokens; `proof` as in StoreRequest, `head` of the classifier that reads them. Throws UsageError
// if no folder is set, and all that TokenStore and TextDataset throw.
std::unique_ptr<TextDataset> open_dataset(const DataConfig& config, int64_t seq_length, Task task,
                                          const Proof& proof = {}, const HeadClasses& head = {});

// Images for a denoiser. Throws UsageError if no folder is set, and all that ImageDataset throws.
std::unique_ptr<ImageDataset> open_images(const DataConfig& config, const ImageOptions& options);

}  // namespace shade::data
