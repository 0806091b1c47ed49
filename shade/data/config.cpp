#include "shade/data/config.h"

#include "shade/base/error.h"
#include "shade/data/classes.h"
#include "shade/data/tokenizer/bpe_tokenizer.h"

namespace shade::data {

void DataConfig::declare(Fields& f) {
  f.add("data_folder", data_folder,
        {.help = "folder of .txt, .json and .jsonl files or, to train on images, of a folder for each class",
         .flags = {"--data-folder"}});
  f.add("tokenizer", tokenizer,
        {.help =
             "tokenizer.json of Hugging Face (byte-level BPE) or its folder; bytes: every byte is a token; if not set, "
             "train uses that of the model's folder, otherwise bytes",
         .flags = {"--tokenizer"}});
  f.add("packing", packing,
        {.help = "records: each record is a sample; packed: samples are windows over all records in a row, and a "
                 "private run needs --privacy-unit window",
         .flags = {"--packing"}});
  f.add("text_unit", text_unit, {.help = "what is a record of a .txt file", .flags = {"--text-unit"}});
  f.add(
      "classes", classes,
      {.help = "names of the classes in their order, or @FILE with one per line; required in private runs on labelled "
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

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& place) {
  if (place.empty() || place == "bytes") return std::make_shared<ByteTokenizer>();
  return read_tokenizer(place);
}

std::unique_ptr<TextDataset> open_dataset(const DataConfig& config, int64_t seq_length, Task task, bool proven) {
  SHADE_REQUIRE(!config.data_folder.empty(), "no data; set --data-folder");
  SHADE_REQUIRE(!config.flip, "--flip is for images, and ", config.data_folder, " holds texts; drop it");
  auto tokenizer = open_tokenizer(config.tokenizer);
  auto store = TokenStore::open({.folder = config.data_folder,
                                 .unit = config.text_unit,
                                 .max_records = config.max_records,
                                 .cache = config.cache_folder,
                                 .proven = proven},
                                *tokenizer);
  return std::make_unique<TextDataset>(
      std::move(store), std::move(tokenizer),
      TextOptions{
          .seq_length = seq_length, .task = task, .packing = config.packing, .classes = read_classes(config.classes)});
}

std::unique_ptr<ImageDataset> open_images(const DataConfig& config, const ImageOptions& options) {
  SHADE_REQUIRE(!config.data_folder.empty(), "no data; set --data-folder");
  auto named = options;
  named.names = read_classes(config.classes);
  named.flip = config.flip;
  return std::make_unique<ImageDataset>(config.data_folder, named);
}

}  // namespace shade::data
