// Texts as batches of T tokens.
//
//   records   each record is a sample: [bos] tokens [eos]. Of one that is longer than T the tokens are cut, never the
//             eos; a shorter one is padded.
//   packed    all records, framed in the same way, form one stream that is cut into windows of T tokens, the last one
//             padded. Nothing is wasted, but a window holds parts of several records and a record may reach into
//             several windows: what a private run protects is a window, not a text or a person.
#pragma once

#include "shade/data/dataset.h"
#include "shade/data/token_store.h"

namespace shade::data {

enum class Packing { records, packed };
inline std::span<const Name<Packing>> names_of(Packing) {
  static constexpr Name<Packing> kNames[] = {{"records", Packing::records}, {"packed", Packing::packed}};
  return kNames;
}

enum class Task { lm, classify };
inline std::span<const Name<Task>> names_of(Task) {
  static constexpr Name<Task> kNames[] = {{"lm", Task::lm}, {"classify", Task::classify}};
  return kNames;
}

inline constexpr int64_t kIgnored = -100;  // a label that counts for nothing, as nn::lm_losses has it

struct TextOptions {
  int64_t seq_length = 128;
  Task task = Task::lm;
  Packing packing = Packing::records;
  std::vector<std::string> classes{};  // classify: in this order; empty: the labels that occur, sorted
};

class TextDataset final : public Dataset {
 public:
  // Throws UsageError: packed classification, a record without label (naming it), a label that is none of the classes.
  TextDataset(std::shared_ptr<const TokenStore> store, std::shared_ptr<const Tokenizer> tokenizer,
              const TextOptions& options);

  int64_t size() const override;

  // ids_BT, mask_BT; labels: lm: the ids again, kIgnored at padding (models shift them), classify: classes [B].
  nn::Batch batch(std::span<const int64_t> records) const override;
  std::string describe() const override;
  std::vector<std::string> classes() const override { return options_.classes; }
  std::string fingerprint() const override;
  uint64_t content_of(int64_t record) const override;  // its ids as a batch has them, and its class

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TokenStore& store() const { return *store_; }
  const TextOptions& options() const { return options_; }

 private:
  uint64_t frame() const { return tokenizer_->bos() ? 2 : 1; }  // tokens set around a record
  int64_t fill(int64_t record, std::span<int64_t> ids) const;   // how many were filled
  int64_t class_of(int64_t record) const { return class_numbers_.at(static_cast<size_t>(store_->entry(record).label)); }
  int64_t fill_window(int64_t window, std::span<int64_t> ids) const;
  int64_t fill_record(const TokenStore::Entry& entry, std::span<int64_t> ids) const;
  int64_t fill_framed(const TokenStore::Entry& entry, uint64_t from, std::span<int64_t> ids) const;

  std::shared_ptr<const TokenStore> store_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TextOptions options_;
  std::vector<int64_t> class_numbers_;  // of the store's labels
};

}  // namespace shade::data
