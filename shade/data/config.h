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

  void declare(Fields& fields);
};

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& place);  // empty, "bytes": ByteTokenizer

// Texts of `seq_length` tokens; `proven` as in StoreRequest. Throws UsageError if no folder is set, and all that
// TokenStore and TextDataset throw.
std::unique_ptr<TextDataset> open_dataset(const DataConfig& config, int64_t seq_length, Task task, bool proven = false);

// Images for a denoiser. Throws UsageError if no folder is set, and all that ImageDataset throws.
std::unique_ptr<ImageDataset> open_images(const DataConfig& config, const ImageOptions& options);

}  // namespace shade::data
