#include "shade/data/config.h"

#include "shade/base/error.h"
#include "shade/data/classes.h"
#include "shade/data/records.h"
#include "shade/data/tokenizer/bpe_tokenizer.h"

namespace shade::data {

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& place) {
  if (place.empty() || place == "bytes") return std::make_shared<ByteTokenizer>();
  return read_tokenizer(place);
}

namespace {

// "notes.csv:17: " of the first record with this label, or nothing.
std::string place_of_label(const std::string& label, const std::filesystem::path& folder,
                           const RecordOptions& options) {
  Records records(options);
  for (const auto& file : find_text_files(folder)) {
    std::string found;
    records.read(file, [&](Record&& record, uint64_t) {
      if (record.label == label) found = text(place_in(file, record.line), ": ");
      return found.empty();
    });
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::unique_ptr<TextDataset> open_dataset(const DataConfig& config, int64_t seq_length, Task task, const Proof& proof,
                                          const HeadClasses& head) {
  SHADE_REQUIRE(!config.data_folder.empty(), "no data; set --data-folder");
  auto tokenizer = open_tokenizer(config.tokenizer);
  const ChatTemplate chat(config.tokenizer, config.chat_template, *tokenizer);
  auto store = TokenStore::open({.folder = config.data_folder,
                                 .records = config.record_options(&chat),
                                 .max_records = config.max_records,
                                 .cache = config.cache_folder,
                                 .proof = proof},
                                *tokenizer);
  const TextOptions options{.seq_length = seq_length,
                            .task = task,
                            .packing = config.packing,
                            .loss_on = config.loss_on,
                            .classes = read_classes(config.classes),
                            .head = head};
  try {
    return std::make_unique<TextDataset>(std::move(store), std::move(tokenizer), options);
  } catch (const UnknownLabel& fault) {
    throw UsageError(text(place_of_label(fault.label(), config.data_folder, config.record_options()), fault.what()));
  }
}

std::unique_ptr<ImageDataset> open_images(const DataConfig& config, const ImageOptions& options) {
  SHADE_REQUIRE(!config.data_folder.empty(), "no data; set --data-folder");
  SHADE_REQUIRE(config.fields.user.empty(), "--user-field ", config.fields.user,
                " names a field of texts' records, and images have no fields; drop it");
  auto named = options;
  named.names = read_classes(config.classes);
  named.flip = config.flip;
  return std::make_unique<ImageDataset>(config.data_folder, named);
}

}  // namespace shade::data
