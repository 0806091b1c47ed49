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
  const auto all = store_->tokens() + store_->records() * static_cast<int64_t>(frame());
  return (all + options_.seq_length - 1) / options_.seq_length;
}

// Tokens [from, from + ids.size()) of a record with its frame, as many as there are. How many there were.
int64_t TextDataset::fill_framed(const TokenStore::Entry& entry, uint64_t from, std::span<int64_t> ids) const {
  const uint64_t head = tokenizer_->bos() ? 1 : 0;
  const uint64_t length = head + (entry.end - entry.begin) + 1;
  const auto count = std::min<uint64_t>(ids.size(), length - from);
  uint64_t at = 0;
  if (from < head && at < count) ids[at++] = *tokenizer_->bos();
  const auto first = entry.begin + (from + at - head);
  const auto tokens = std::min(entry.end - std::min(first, entry.end), count - at);
  store_->read(first, ids.subspan(at, tokens));
  at += tokens;
  if (at < count) ids[at++] = tokenizer_->eos();
  return static_cast<int64_t>(at);
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

int64_t TextDataset::fill_window(int64_t window, std::span<int64_t> ids) const {
  auto position = static_cast<uint64_t>(window) * ids.size();
  auto [record, begin] = store_->find(position, frame());
  int64_t filled = 0;
  for (; filled < static_cast<int64_t>(ids.size()) && record < store_->records(); ++record) {
    filled += fill_framed(store_->entry(record), position - begin, ids.subspan(static_cast<size_t>(filled)));
    position = begin = 0;  // further records from their begin
  }
  return filled;
}

int64_t TextDataset::fill(int64_t record, std::span<int64_t> ids) const {
  SHADE_REQUIRE(record >= 0 && record < size(), "record ", record, " of ", size());
  return options_.packing == Packing::packed ? fill_window(record, ids) : fill_record(store_->entry(record), ids);
}

nn::Batch TextDataset::batch(std::span<const int64_t> records) const {
  const MemoryScope scope(MemoryKind::data);
  const auto b = static_cast<int64_t>(records.size()), t = options_.seq_length;
  nn::Batch batch;
  batch.ids_BT = at::full({b, t}, static_cast<int64_t>(tokenizer_->pad()), at::kLong);
  batch.mask_BT = at::zeros({b, t}, at::kLong);
  const bool classify = options_.task == Task::classify;
  batch.labels = classify ? at::empty({b}, at::kLong) : at::full({b, t}, kIgnored, at::kLong);
  auto* ids = batch.ids_BT.data_ptr<int64_t>();
  auto* mask = batch.mask_BT.data_ptr<int64_t>();
  auto* labels = batch.labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < b; ++i) {
    const auto record = records[static_cast<size_t>(i)];
    const std::span row(ids + i * t, static_cast<size_t>(t));
    const auto filled = fill(record, row);
    std::fill_n(mask + i * t, filled, 1);
    if (classify)
      labels[i] = class_of(record);
    else
      std::copy_n(row.data(), filled, labels + i * t);
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
  const Json all{{"content", store_->content()},           {"tokenizer", tokenizer_->fingerprint()},
                 {"seq_length", options_.seq_length},      {"task", to_string(options_.task)},
                 {"packing", to_string(options_.packing)}, {"classes", options_.classes}};
  return io::to_hex(io::digest_of(all.dump()));
}

uint64_t TextDataset::content_of(int64_t record) const {
  std::vector<int64_t> held(static_cast<size_t>(options_.seq_length));
  held.resize(static_cast<size_t>(fill(record, held)));
  if (options_.task == Task::classify) held.push_back(class_of(record));
  return io::content_hash(std::as_bytes(std::span(held)))[0];
}

}  // namespace shade::data
