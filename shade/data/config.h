// What a user says about the data.
#pragma once

#include "shade/base/config.h"
#include "shade/base/strings.h"
#include "shade/data/chat/chat_template.h"
#include "shade/data/image_dataset.h"
#include "shade/data/text_dataset.h"

namespace shade::data {

struct DataConfig {
  std::string data_folder;
  std::string tokenizer;  // a tokenizer.json or a folder that has one; empty, "bytes": every byte is a token
  Packing packing = Packing::records;
  std::string chat_template;  // of conversations; empty: that of the tokenizer's folder
  LossOn loss_on = LossOn::completion;
  TextUnit text_unit = TextUnit::file;
  FieldNames fields{};               // empty: found by conventional names
  std::vector<std::string> classes;  // as read_classes reads them; empty: the labels that occur
  bool flip = false;                 // images
  int64_t max_records = 0;
  std::string cache_folder;

  RecordOptions record_options(const ChatTemplate* chat = nullptr) const {
    return {.unit = text_unit, .fields = fields, .chat_template = chat};
  }

  void declare(Fields& f) {
    f.add("data_folder", data_folder,
          {.help =
               "folder of .txt, .json, .jsonl, .csv, .parquet and .arrow files or, to train on images, of a folder for "
               "each class",
           .flags = {"--data-folder"}});
    f.add(
        "tokenizer", tokenizer,
        {.help =
             "tokenizer.json of Hugging Face (byte-level BPE) or its folder; bytes: every byte is a token; if not set, "
             "train uses that of the model's folder, otherwise bytes",
         .flags = {"--tokenizer"}});
    f.add("packing", packing,
          {.help = "records: each record is a sample; packed: samples are windows over all records in a row, and a "
                   "private run needs --privacy-unit window",
           .flags = {"--packing"}});
    f.add("chat_template", chat_template,
          {.help = text("name of the chat template that makes messages text, one of ",
                        join(chat_template_names(), ", "), "; that of the tokenizer's folder if not set"),
           .flags = {"--chat-template"}});
    f.add("loss_on", loss_on,
          {.help = "tokens that a language model learns to predict; completion: those of completions and of an "
                   "assistant's turns, and all of plain texts; all: those of prompts too",
           .flags = {"--loss-on"}});
    f.add("text_unit", text_unit, {.help = "what is a record of a .txt file", .flags = {"--text-unit"}});
    f.add(
        "text_field", fields.text,
        {.help = "name of the field that holds a record's text; if no field is named, text, prompt with completion (or "
                 "response), or messages (or conversations), whichever is there",
         .flags = {"--text-field"}});
    f.add("prompt_field", fields.prompt,
          {.help = "name of the field that holds a record's prompt, which is read and not trained on; needs "
                   "completion_field",
           .flags = {"--prompt-field"}});
    f.add("completion_field", fields.completion,
          {.help = "name of the field that holds what follows the prompt and is trained on",
           .flags = {"--completion-field"}});
    f.add("messages_field", fields.messages,
          {.help =
               "name of the field that holds a conversation, a list of messages with role and content, written by the "
               "model's chat template",
           .flags = {"--messages-field"}});
    f.add("label_field", fields.label,
          {.help = "name of the field that holds a record's class, which every record then needs; label, where it is "
                   "there, if not set",
           .flags = {"--label-field"}});
    f.add(
        "user_field", fields.user,
        {.help = "name of the field that says whose record it is, a string or a whole number, which every record then "
                 "needs",
         .flags = {"--user-field"}});
    f.add("classes", classes,
          {.help =
               "names of the classes in their order, or @FILE with one per line; required in private runs on labelled "
               "records, where the labels that occur are not public",
           .flags = {"--classes"}});
    f.add("flip", flip,
          {.help = "images: train on an image or its mirror image, each half of the time; evaluation flips none",
           .flags = {"--flip"}});
    f.add("max_records", max_records,
          {.help = "only the first so many; 0: all, as a private run needs it",
           .unit = "records",
           .min = 0,
           .flags = {"--max-records"}});
    f.add("cache_folder", cache_folder,
          {.help = "where tokens are kept, a copy of the data; .shade in the data folder if not set",
           .flags = {"--cache-folder"}});
  }
};

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& place);  // empty, "bytes": ByteTokenizer

// Texts of `seq_length` tokens; `proof` as in StoreRequest. Throws UsageError if no folder is set, and all that
// TokenStore and TextDataset throw.
std::unique_ptr<TextDataset> open_dataset(const DataConfig& config, int64_t seq_length, Task task,
                                          const Proof& proof = {});

// Images for a denoiser. Throws UsageError if no folder is set, and all that ImageDataset throws.
std::unique_ptr<ImageDataset> open_images(const DataConfig& config, const ImageOptions& options);

}  // namespace shade::data
