#include "shade/data/text_dataset.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/memory_scope.h"
#include "shade/data/classes.h"
#include "shade/io/content_hash.h"
#include "shade/io/digest.h"

namespace shade::data {

TextDataset::TextDataset(std::shared_ptr<const TokenStore> store, std::shared_ptr<const Tokenizer> tokenizer,
                         const TextOptions& options)
    : store_(std::move(store)), tokenizer_(std::move(tokenizer)), options_(options) {
  SHADE_REQUIRE(options_.seq_length >= 2, "a text of ", options_.seq_length,
                " tokens has nothing to predict; expected a length of at least 2");
  if (options_.packing == Packing::packed) pack({});
  if (options_.task != Task::classify) options_.classes.clear();
  if (options_.task != Task::classify) return;
  SHADE_REQUIRE(options_.packing == Packing::records,
                "a packed window holds several texts and has no class; classify with --packing records");
  SHADE_REQUIRE(store_->first_unlabelled().empty(), store_->first_unlabelled(),
                ": the record has no \"label\", which classification needs");
  const auto& labels = store_->classes();
  if (options_.classes.empty()) options_.classes = labels;
  SHADE_REQUIRE(classes().size() >= 2, "all records have the label '", classes().at(0),
                "'; classification needs at least 2 classes");
  class_numbers_ = number_labels(labels, options_.classes);
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

void TextDataset::pack(PackOptions options) {
  SHADE_REQUIRE(options_.packing == Packing::packed, "these records are not packed");
  packing_ = std::move(options);
  stream_.emplace(store_, packing_.held_out);
}

int64_t TextDataset::fill_record(const TokenStore::Entry& entry, std::span<int64_t> ids) const {
  size_t at = 0;
  if (tokenizer_->bos()) ids[at++] = *tokenizer_->bos();
  const auto tokens = std::min<uint64_t>(entry.end - entry.begin, ids.size() - frame());
  store_->read(entry.begin, ids.subspan(at, tokens));
  at += tokens;
  ids[at++] = tokenizer_->eos();
  return static_cast<int64_t>(at);
}

// From position `from` of a record on.
int64_t TextDataset::fill_positions(const TokenStore::Entry& entry, uint64_t from, const Window& window) const {
  const auto tokens = entry.end - entry.begin;
  const auto count = std::min<uint64_t>(window.ids.size(), tokens + 1 - from);
  const auto targets = window.targets.first(count);
  store_->read(entry.begin + from, targets.first(std::min(count, tokens - from)));
  if (from + count > tokens) targets.back() = tokenizer_->eos();
  std::copy_n(targets.begin(), count - 1, window.ids.begin() + 1);
  window.ids[0] = tokenizer_->bos().value_or(tokenizer_->eos());
  if (from > 0 && packing_.share_tokens) store_->read(entry.begin + from - 1, window.ids.first(1));
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

nn::Batch TextDataset::batch(std::span<const int64_t> records) const {
  const MemoryScope scope(MemoryKind::data);
  const auto b = static_cast<int64_t>(records.size()), t = options_.seq_length;
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
    const auto ids = row(batch.ids_BT, i);
    const auto filled = packed ? fill_window(record, {ids, row(batch.labels, i), row(batch.documents_BT, i)})
                               : fill_record(store_->entry(record), ids);
    std::fill_n(row(batch.mask_BT, i).begin(), filled, 1);
    if (classify)
      batch.labels.data_ptr<int64_t>()[i] = class_of(record);
    else if (!packed)
      std::copy_n(ids.begin(), filled, row(batch.labels, i).begin());
  }
  return batch;
}

std::string TextDataset::describe() const {
  const bool packed = options_.packing == Packing::packed;
  return text(store_->records(), " records, ", store_->tokens(), " tokens (", tokenizer_->describe(), "), ",
              packed ? text("packed into ", size(), " windows of ", options_.seq_length, " tokens")
                     : text("cut at ", options_.seq_length, " tokens"),
              options_.task == Task::classify ? text(", ", classes().size(), " classes") : "",
              store_->empty_records() > 0 ? text(", ", store_->empty_records(), " empty records left out") : "");
}

std::string TextDataset::fingerprint() const {
  const Json all{{"content", store_->content()},
                 {"tokenizer", tokenizer_->fingerprint()},
                 {"seq_length", options_.seq_length},
                 {"task", to_string(options_.task)},
                 {"packing", to_string(options_.packing)},
                 {"classes", options_.classes},
                 {"held_out", packing_.held_out},
                 {"share_tokens", packing_.share_tokens},
                 {"bos", tokenizer_->bos().value_or(-1)},
                 {"eos", tokenizer_->eos()},
                 {"pad", tokenizer_->pad()}};
  return io::to_hex(io::digest_of(all.dump()));
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
    held.resize(static_cast<size_t>(fill_record(store_->entry(record), held)));
  }
  if (options_.task == Task::classify) held.push_back(class_of(record));
  return io::content_hash(std::as_bytes(std::span(held)))[0];
}

}  // namespace shade::data
