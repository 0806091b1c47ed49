// What a user says about the data.
#pragma once

#include "shade/base/config.h"
#include "shade/data/image_dataset.h"
#include "shade/data/text_dataset.h"

namespace shade::data {

struct DataConfig {
  std::string data_folder;
  std::string tokenizer;  // a tokenizer.json or a folder that has one; empty, "bytes": every byte is a token
  Packing packing = Packing::records;
  TextUnit text_unit = TextUnit::file;
  std::vector<std::string> classes;  // as read_classes reads them; empty: the labels that occur
  bool flip = false;                 // images
  int64_t max_records = 0;
  std::string cache_folder;

  void declare(Fields& f) {
    f.add("data_folder", data_folder,
          {.help = "folder of .txt, .json and .jsonl files or, to train on images, of a folder for each class",
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
    f.add("text_unit", text_unit, {.help = "what is a record of a .txt file", .flags = {"--text-unit"}});
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
