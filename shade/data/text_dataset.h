// Texts as batches of T tokens.
//
//   records   each record is a sample: [bos] tokens [eos]. Of one that is longer than T the tokens are cut, never the
//             eos; a shorter one is padded.
//   packed    all records form one stream that is cut into windows of T positions, the last one padded. Nothing is
//             wasted, but a window holds parts of several records and a record may reach into several windows: what a
//             private run protects is a window, not a text or a person.
//
// In the stream a record x1 .. xn takes n + 1 positions:
//
//   input     start x1 .. xn      start: the tokenizer's bos or, if it has none, its eos
//   target    x1 .. xn eos
//
// A conversation has bos and ends of turns among its tokens: nothing is set around it, it takes n positions, and the
// last one predicts nothing.
//
// So every token is predicted exactly once, the first of a record from `start`, and none from another record: a
// position sees the positions before it in its window that are of the same record. The first input of a window that
// begins inside a record is the token before, which is the last target of the window before; if windows share no tokens
// (PackOptions), it is `start`.
//
// Tokens that don't count (those of prompts, TokenStore::read_counted) are read but not predicted: their label is
// kIgnored. An eos counts if the token before it does. A record whose counted tokens are all cut off has a loss of 0
// and no gradient. It stays a record: it is drawn, dealt and counted in n as any other, because which records there are
// must not depend on what they hold.
#pragma once

#include "shade/data/classes.h"
#include "shade/data/dataset.h"
#include "shade/data/token_store.h"

namespace shade::data {

// The documents of a store as streams of positions, to be cut into windows: one of those that are trained on, one of
// those held out. A document of n tokens takes n + 1 positions, or n if it has ends of its own (text_dataset.h).
//
// A document is in one stream or the other as a whole, so that no window of the one has a token of the other. 24 bytes
// of memory for each document that is held out, and none for the others.
enum class Use { training, held_out };

// Const methods are thread-safe.
class DocumentStream {
 public:
  // Throws UsageError if `held_out` doesn't ascend or names no record of the store.
  DocumentStream(std::shared_ptr<const TokenStore> store, std::span<const int64_t> held_out);

  // Number of positions in a stream.
  uint64_t positions(Use use) const { return use == Use::held_out ? held_out_ : all_ - held_out_; }

  // Where a position of a stream falls.
  struct Place {
    int64_t document = 0;  // its record in the store
    uint64_t offset = 0;   // positions of the document before it
  };
  // `position` must be below positions(use).
  Place find(Use use, uint64_t position) const;
  int64_t after(Use use, int64_t document) const;  // the next one of the stream; records() of the store: none

 private:
  struct HeldOut {
    int64_t document = 0;
    uint64_t begin = 0;   // in the stream of all documents
    uint64_t before = 0;  // positions of those held out before it
  };

  std::shared_ptr<const TokenStore> store_;
  uint64_t frame_;  // positions of a document beyond its tokens
  std::vector<HeldOut> out_;
  uint64_t all_ = 0, held_out_ = 0;  // positions
};

// Whether a sample of texts is a record or a window over all of them.
enum class Packing { records, packed };
inline std::span<const Name<Packing>> names_of(Packing) {
  static constexpr Name<Packing> kNames[] = {{"records", Packing::records}, {"packed", Packing::packed}};
  return kNames;
}

// What labels are: tokens (lm), or a class per record (classify).
enum class Task { lm, classify };
inline std::span<const Name<Task>> names_of(Task) {
  static constexpr Name<Task> kNames[] = {{"lm", Task::lm}, {"classify", Task::classify}};
  return kNames;
}

// What a language model learns to predict.
enum class LossOn { completion, all };
inline std::span<const Name<LossOn>> names_of(LossOn) {
  static constexpr Name<LossOn> kNames[] = {{"completion", LossOn::completion}, {"all", LossOn::all}};
  return kNames;
}

inline constexpr int64_t kIgnored = -100;  // a label that counts for nothing, as nn::lm_losses has it

// How records become samples.
struct TextOptions {
  int64_t seq_length = 128;             // T, positions of a sample, at least 2
  Task task = Task::lm;                 // classify needs labels, and records that are not packed
  Packing packing = Packing::records;   // packed: samples are windows
  LossOn loss_on = LossOn::completion;  // lm: which tokens are predicted
  std::vector<std::string> classes{};   // classify: as stated; empty: not stated (number_classes)
  HeadClasses head{};                   // classify: of the model
};

// Of packed texts.
struct PackOptions {
  std::vector<int64_t> held_out{};  // records, ascending, whose windows follow those of all others
  bool share_tokens = true;         // two windows that divide a record both have the token at the border
};

// Samples of token ids from a token store.
class TextDataset final : public Dataset {
 public:
  // Throws UsageError: packed classification, a record without label (naming it), a label that is none of the classes.
  TextDataset(std::shared_ptr<const TokenStore> store, std::shared_ptr<const Tokenizer> tokenizer,
              const TextOptions& options);

  // Records without a token in the loss: all that count are cut off, or there was none. Not of packed texts.
  int64_t records_without_loss() const;

  // The same records, each a sample.
  TextDataset unpacked() const;
  // Packs anew. Throws UsageError if records are not packed.
  void pack(PackOptions options);

  int64_t size() const override;
  int64_t windows(Use use) const;                                      // of packed texts
  int64_t held_out() const { return std::ssize(packing_.held_out); }   // records
  bool windows_share_tokens() const { return packing_.share_tokens; }  // PackOptions::share_tokens
  SampleUnit unit() const override;

  // ids_BT, mask_BT; labels: lm: the ids again, kIgnored at padding (models shift them), classify: classes [B]. Packed:
  // documents_BT, and labels are what each position must predict.
  nn::Batch batch(std::span<const int64_t> records) const override {
    return padded_batch(records, options_.seq_length);
  }
  nn::Batch padded_batch(std::span<const int64_t> records, int64_t length) const override;
  int64_t max_length() const override { return options_.packing == Packing::packed ? 0 : options_.seq_length; }
  int64_t length_of(int64_t record) const override;
  // Tokens of a record with those set around it, before it is cut.
  int64_t full_length(const TokenStore::Entry& entry) const {
    return static_cast<int64_t>(entry.end - entry.begin + frame());
  }
  std::string describe() const override;
  std::optional<UserId> user_of(int64_t record) const override;
  std::vector<std::string> classes() const override { return classes_.names; }
  std::span<const int64_t> class_numbers() const { return classes_.of_labels; }  // of store().classes()
  std::string fingerprint() const override;
  // Of its ids as a batch has them and of its class; of a packed window, of ids and labels.
  uint64_t content_of(int64_t record) const override;

  const Tokenizer& tokenizer() const { return *tokenizer_; }  // supplies bos, eos and padding ids
  const TokenStore& store() const { return *store_; }         // holds the tokens of all records, packed or not
  const TextOptions& options() const { return options_; }     // as passed to the constructor

 private:
  bool counts_all() const { return options_.loss_on == LossOn::all || store_->all_counted(); }
  bool has_bos() const { return store_->framed() && tokenizer_->bos(); }
  uint64_t frame() const { return store_->framed() ? (has_bos() ? 2 : 1) : 0; }  // tokens set around a record
  std::string describe_cut() const;
  std::string describe_loss() const;
  int64_t class_of(int64_t record) const {
    return classes_.of_labels.at(static_cast<size_t>(store_->entry(record).label));
  }
  // Both return how many positions were filled.
  void require_record(int64_t record) const;
  int64_t fill_record(const TokenStore::Entry& entry, std::span<int64_t> ids) const;
  void label_record(const TokenStore::Entry& entry, std::span<const int64_t> ids, std::span<int64_t> labels) const;

  // A row of a batch of packed texts.
  struct Window {
    std::span<int64_t> ids, targets, documents;
  };
  int64_t fill_window(int64_t number, const Window& window) const;
  int64_t fill_positions(const TokenStore::Entry& entry, uint64_t from, const Window& window) const;

  std::shared_ptr<const TokenStore> store_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  TextOptions options_;
  NumberedClasses classes_;
  PackOptions packing_;
  std::optional<DocumentStream> stream_;  // of packed texts
};

}  // namespace shade::data
