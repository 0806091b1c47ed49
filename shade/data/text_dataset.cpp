#include "shade/data/text_dataset.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/memory_scope.h"
#include "shade/base/units.h"
#include "shade/data/token_store.h"
#include "shade/hash/content_hash.h"
#include "shade/hash/digest.h"

namespace shade::data {
namespace {

// What is lost where records are cut at the sequence length.

// Share of the tokens that lie beyond the first `seq_length` of their record. `frame`: tokens set around a record. Of
// more than 65536 records, of as many at even distances.
double share_cut(const TokenStore& store, int64_t seq_length, int64_t frame) {
  constexpr int64_t kStep = 1024, kSteps = 64;
  const int64_t stride = std::max(kStep, store.records() / kSteps);
  double all = 0, cut = 0;
  for (int64_t first = 0; first < store.records(); first += stride) {
    for (const auto& entry : store.entries(first, std::min(kStep, store.records() - first))) {
      const auto length = static_cast<int64_t>(entry.end - entry.begin) + frame;
      all += static_cast<double>(length);
      cut += static_cast<double>(std::max<int64_t>(0, length - seq_length));
    }
  }
  return all > 0 ? cut / all : 0;
}

}  // namespace

TextDataset::TextDataset(std::shared_ptr<const TokenStore> store, std::shared_ptr<const Tokenizer> tokenizer,
                         const TextOptions& options)
    : store_(std::move(store)), tokenizer_(std::move(tokenizer)), options_(options) {
  SHADE_REQUIRE(options_.seq_length >= 2, "a text of ", options_.seq_length,
                " tokens has nothing to predict; expected a length of at least 2");
  if (options_.packing == Packing::packed) pack({});
  if (options_.task != Task::classify) return;
  SHADE_REQUIRE(options_.packing == Packing::records,
                "a packed window holds several texts and has no class; classify with --packing records");
  SHADE_REQUIRE(store_->first_unlabelled().empty(), store_->first_unlabelled(),
                ": the record has no \"label\", which classification needs");
  classes_ = number_classes(store_->classes(), options_.classes, options_.head);
}

int64_t TextDataset::size() const {
  if (options_.packing == Packing::records) return store_->records();
  return windows(Use::training) + windows(Use::held_out);
}

SampleUnit TextDataset::unit() const {
  if (options_.packing != Packing::packed) return SampleUnit::record;
  return windows_share_tokens() ? SampleUnit::overlapping_window : SampleUnit::window;
}

int64_t TextDataset::windows(Use use) const {
  const auto t = static_cast<uint64_t>(options_.seq_length);
  return static_cast<int64_t>((stream_->positions(use) + t - 1) / t);
}

std::optional<UserId> TextDataset::user_of(int64_t record) const {
  if (!store_->has_users() || options_.packing == Packing::packed) return std::nullopt;
  return store_->user_of(record);
}

TextDataset TextDataset::unpacked() const {
  auto options = options_;
  options.packing = Packing::records;
  return {store_, tokenizer_, options};
}

void TextDataset::pack(PackOptions options) {
  SHADE_REQUIRE(options_.packing == Packing::packed, "these records are not packed");
  packing_ = std::move(options);
  stream_.emplace(store_, packing_.held_out);
}

int64_t TextDataset::fill_record(const TokenStore::Entry& entry, std::span<int64_t> ids) const {
  size_t at = 0;
  if (has_bos()) ids[at++] = *tokenizer_->bos();
  const auto tokens = std::min<uint64_t>(entry.end - entry.begin, ids.size() - frame());
  store_->read(entry.begin, ids.subspan(at, tokens));
  at += tokens;
  if (store_->framed()) ids[at++] = tokenizer_->eos();
  return static_cast<int64_t>(at);
}

// Of the ids that fill_record() wrote.
void TextDataset::label_record(const TokenStore::Entry& entry, std::span<const int64_t> ids,
                               std::span<int64_t> labels) const {
  std::ranges::copy(ids, labels.begin());
  if (counts_all()) return;
  std::vector<uint8_t> counted(ids.size() - frame());
  store_->read_counted(entry.begin, counted);
  auto at = labels.begin();
  if (has_bos()) *at++ = kIgnored;
  for (const auto one : counted) {
    if (one == 0) *at = kIgnored;
    ++at;
  }
  if (store_->framed() && !counted.empty() && counted.back() == 0) *at = kIgnored;
}

// From position `from` of a record on. Position p predicts token p or, in a record with ends of its own, p + 1.
int64_t TextDataset::fill_positions(const TokenStore::Entry& entry, uint64_t from, const Window& window) const {
  const auto tokens = entry.end - entry.begin;
  const uint64_t ahead = store_->framed() ? 0 : 1;
  const auto count = std::min<uint64_t>(window.ids.size(), tokens + 1 - ahead - from);
  const auto first = from + ahead, read = std::min(count, tokens - first);  // tokens that are predicted
  const auto targets = window.targets.first(count);
  store_->read(entry.begin + first, targets.first(read));
  if (read < count) targets.back() = store_->framed() ? tokenizer_->eos() : kIgnored;
  std::copy_n(targets.begin(), count - 1, window.ids.begin() + 1);
  const bool has_input = from == 0 ? !store_->framed() : packing_.share_tokens;
  window.ids[0] = tokenizer_->bos().value_or(tokenizer_->eos());
  if (has_input) store_->read(entry.begin + first - 1, window.ids.first(1));
  if (counts_all()) return static_cast<int64_t>(count);
  std::vector<uint8_t> counted(read + 1, 1);  // with the token before: whether an eos counts
  const auto before = std::min<uint64_t>(first, 1);
  store_->read_counted(entry.begin + first - before, std::span(counted).subspan(1 - before, read + before));
  for (size_t i = 0; i < count; ++i)
    if (counted[std::min<size_t>(i + 1, read)] == 0) targets[i] = kIgnored;
  return static_cast<int64_t>(count);
}

int64_t TextDataset::fill_window(int64_t number, const Window& window) const {
  const auto use = number < windows(Use::training) ? Use::training : Use::held_out;
  const auto first = use == Use::training ? number : number - windows(Use::training);
  auto [record, from] = stream_->find(use, static_cast<uint64_t>(first) * window.ids.size());
  int64_t filled = 0, document = 0;
  while (filled < std::ssize(window.ids) && record < store_->records()) {
    const auto at = static_cast<size_t>(filled);
    const auto count =
        fill_positions(store_->entry(record), from,
                       {window.ids.subspan(at), window.targets.subspan(at), window.documents.subspan(at)});
    std::fill_n(window.documents.begin() + filled, count, document++);
    filled += count;
    record = stream_->after(use, record);
    from = 0;
  }
  std::fill(window.documents.begin() + filled, window.documents.end(), document);  // padding
  return filled;
}

void TextDataset::require_record(int64_t record) const {
  SHADE_REQUIRE(record >= 0 && record < size(), "record ", record, " of ", size());
}

int64_t TextDataset::length_of(int64_t record) const {
  require_record(record);
  if (options_.packing == Packing::packed) return options_.seq_length;
  return std::min(full_length(store_->entry(record)), options_.seq_length);
}

nn::Batch TextDataset::padded_batch(std::span<const int64_t> records, int64_t length) const {
  const MemoryScope scope(MemoryKind::data);
  const auto b = static_cast<int64_t>(records.size()), t = length;
  SHADE_REQUIRE(t <= options_.seq_length, "a batch padded to ", t, " positions of texts that are cut at ",
                options_.seq_length);
  nn::Batch batch;
  batch.ids_BT = at::full({b, t}, static_cast<int64_t>(tokenizer_->pad()), at::kLong);
  batch.mask_BT = at::zeros({b, t}, at::kLong);
  const bool classify = options_.task == Task::classify;
  batch.labels = classify ? at::empty({b}, at::kLong) : at::full({b, t}, kIgnored, at::kLong);
  const bool packed = options_.packing == Packing::packed;
  if (packed) batch.documents_BT = at::empty({b, t}, at::kLong);
  const auto row = [&](const at::Tensor& tensor, int64_t i) {
    return std::span(tensor.data_ptr<int64_t>() + i * t, static_cast<size_t>(t));
  };
  for (int64_t i = 0; i < b; ++i) {
    const auto record = records[static_cast<size_t>(i)];
    require_record(record);
    SHADE_REQUIRE(t == options_.seq_length || length_of(record) <= t, "record ", record, " has ", length_of(record),
                  " positions, more than the ", t,
                  " that the batch is padded to; pad it to the longest of its records (length_of)");
    const auto ids = row(batch.ids_BT, i);
    const auto filled = packed ? fill_window(record, {ids, row(batch.labels, i), row(batch.documents_BT, i)})
                               : fill_record(store_->entry(record), ids);
    std::fill_n(row(batch.mask_BT, i).begin(), filled, 1);
    if (classify)
      batch.labels.data_ptr<int64_t>()[i] = class_of(record);
    else if (!packed)
      label_record(store_->entry(record), ids.first(static_cast<size_t>(filled)), row(batch.labels, i));
  }
  return batch;
}

std::string TextDataset::describe() const {
  const bool packed = options_.packing == Packing::packed;
  return text(store_->records(), " records of ", store_->fields(), ", ", store_->tokens(), " tokens (",
              tokenizer_->describe(), "), ",
              packed ? text("packed into ", size(), " windows of ", options_.seq_length, " tokens")
                     : text("cut at ", options_.seq_length, " tokens", describe_cut()),
              options_.task == Task::classify ? text(", ", classes().size(), " classes") : "",
              classes_.notice.empty() ? "" : text(" (", classes_.notice, ")"),
              store_->empty_records() > 0 ? text(", ", store_->empty_records(), " empty records left out") : "",
              describe_loss());
}

std::string TextDataset::describe_cut() const {
  const double share = share_cut(*store_, options_.seq_length, static_cast<int64_t>(frame()));
  if (share < 0.01) return "";
  return text(": ", percent(100 * share),
              " of the tokens are not used (a smaller --text-unit or --packing packed keeps them, and changes what a "
              "sample is)");
}

std::string TextDataset::describe_loss() const {
  if (options_.task != Task::lm || store_->all_counted()) return "";
  if (counts_all()) return ", loss on all tokens";
  const auto without = options_.packing == Packing::packed ? 0 : records_without_loss();
  return text(", loss on completions alone",
              without > 0 ? text("; ", without, " records have no token of one within ", options_.seq_length,
                                 " tokens: they stay records, with a gradient of 0")
                          : "");
}

int64_t TextDataset::records_without_loss() const {
  if (counts_all()) return 0;
  constexpr int64_t kStep = 1024;
  int64_t without = 0;
  std::vector<uint8_t> counted;
  for (int64_t first = 0; first < store_->records(); first += kStep) {
    const auto entries = store_->entries(first, std::min(kStep, store_->records() - first));
    counted.resize(entries.back().end - entries.front().begin);
    store_->read_counted(entries.front().begin, counted);
    for (const auto& entry : entries) {
      const auto kept =
          std::min<uint64_t>(entry.end - entry.begin, static_cast<uint64_t>(options_.seq_length) - frame());
      const auto tokens = std::span(counted).subspan(entry.begin - entries.front().begin, kept);
      // Nothing comes before the first position, so it is never predicted.
      const auto predicted = has_bos() || tokens.empty() ? tokens : tokens.subspan(1);
      if (std::ranges::find(predicted, 1) == predicted.end() &&
          !(store_->framed() && (tokens.empty() || tokens.back() == 1)))
        ++without;
    }
  }
  return without;
}

std::string TextDataset::fingerprint() const {
  Json all{{"content", store_->content()},
           {"tokenizer", tokenizer_->fingerprint()},
           {"seq_length", options_.seq_length},
           {"task", to_string(options_.task)},
           {"packing", to_string(options_.packing)},
           {"classes", classes_.names},
           {"held_out", packing_.held_out},
           {"share_tokens", packing_.share_tokens},
           {"bos", tokenizer_->bos().value_or(-1)},
           {"eos", tokenizer_->eos()},
           {"pad", tokenizer_->pad()}};
  // Only where they decide anything: runs on plain texts keep the fingerprint that they had.
  if (!store_->all_counted()) all["loss_on"] = to_string(options_.loss_on);
  if (!store_->framed()) all["framed"] = false;
  return hash::to_hex(hash::digest_of(all.dump()));
}

uint64_t TextDataset::content_of(int64_t record) const {
  require_record(record);
  const auto t = static_cast<size_t>(options_.seq_length);
  std::vector<int64_t> held(t);
  if (options_.packing == Packing::packed) {
    std::vector<int64_t> targets(t), documents(t);
    held.resize(static_cast<size_t>(fill_window(record, {held, targets, documents})));
    held.insert(held.end(), targets.begin(), targets.begin() + std::ssize(held));
  } else {
    const auto entry = store_->entry(record);
    held.resize(static_cast<size_t>(fill_record(entry, held)));
    // By its own tokens alone: whether some other record has tokens that don't count must not change this hash.
    std::vector<int64_t> labels(held.size());
    label_record(entry, held, labels);
    if (has_bos()) labels.front() = held.front();  // nothing predicts it
    if (labels != held) held.insert(held.end(), labels.begin(), labels.end());
  }
  if (options_.task == Task::classify) held.push_back(class_of(record));
  return hash::content_hash(std::as_bytes(std::span(held)))[0];
}

DocumentStream::DocumentStream(std::shared_ptr<const TokenStore> store, std::span<const int64_t> held_out)
    : store_(std::move(store)),
      frame_(store_->framed() ? 1 : 0),
      all_(static_cast<uint64_t>(store_->tokens()) + static_cast<uint64_t>(store_->records()) * frame_) {
  for (const auto document : held_out) {
    SHADE_REQUIRE(document >= 0 && document < store_->records() && (out_.empty() || document > out_.back().document),
                  "held-out document ", document, " of ", store_->records(), "; expected ascending numbers");
    const auto [begin, end, label] = store_->entry(document);
    out_.push_back({document, begin + static_cast<uint64_t>(document) * frame_, held_out_});
    held_out_ += end - begin + frame_;
  }
}

DocumentStream::Place DocumentStream::find(Use use, uint64_t position) const {
  if (use == Use::held_out) {
    const auto next = std::partition_point(out_.begin(), out_.end(),
                                           [&](const HeldOut& document) { return document.before <= position; });
    return {std::prev(next)->document, position - std::prev(next)->before};
  }
  // Before the k-th that is held out lie its begin less those held out before it, which never falls with k.
  const auto next = std::partition_point(
      out_.begin(), out_.end(), [&](const HeldOut& document) { return document.begin - document.before <= position; });
  const auto skipped = next == out_.end() ? held_out_ : next->before;
  const auto [document, begin] = store_->find(position + skipped, frame_);
  return {document, position + skipped - begin};
}

int64_t DocumentStream::after(Use use, int64_t document) const {
  auto next =
      std::partition_point(out_.begin(), out_.end(), [&](const HeldOut& other) { return other.document <= document; });
  if (use == Use::held_out) return next == out_.end() ? store_->records() : next->document;
  for (++document; next != out_.end() && next->document == document; ++next) ++document;
  return document;
}

}  // namespace shade::data
