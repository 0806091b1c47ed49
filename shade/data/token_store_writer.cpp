#include "shade/data/token_store_writer.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "shade/base/error.h"
#include "shade/data/block_reader.h"
#include "shade/io/untrusted_text.h"

namespace shade::data {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr size_t kBatch = size_t{1} << 20;  // bytes of text
constexpr size_t kMaxThreads = 16;

// Whoever may look into the folder around it: nobody else into this one.
std::filesystem::path made(std::filesystem::path place) {
  make_folder(place, Readers::owner);
  return place;
}

template <class T>
void pack(std::span<const TokenId> ids, std::vector<std::byte>& out) {
  out.resize(ids.size() * sizeof(T));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto narrow = static_cast<T>(ids[i]);
    std::memcpy(out.data() + i * sizeof(T), &narrow, sizeof(T));
  }
}

// What was grown by one very large record is given back.
template <class Container>
void empty_out(Container& values) {
  values.clear();
  if (values.capacity() * sizeof(values[0]) > 16 * kBatch) values.shrink_to_fit();
}

// Bytes for an id. The byte tokenizer's own special tokens are never stored.
int width_of(const Tokenizer& tokenizer) {
  if (dynamic_cast<const ByteTokenizer*>(&tokenizer) != nullptr) return 1;
  return tokenizer.vocab() <= 65536 ? 2 : 4;
}

}  // namespace

void Appender::add(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBuffer) flush();
}

void Appender::flush() {
  file_.write_at(written_, buffer_);
  hasher_.add(buffer_);
  written_ += buffer_.size();
  buffer_.clear();
}

std::string Appender::commit() {
  flush();
  file_.commit();
  return io::to_hex(hasher_.digest());
}

TokenStoreWriter::TokenStoreWriter(std::filesystem::path place, const Tokenizer& tokenizer)
    : place_(made(std::move(place))),
      tokenizer_(tokenizer),
      width_(width_of(tokenizer)),
      tokens_file_(place_ / "tokens"),
      records_file_(place_ / "records"),
      encoded_(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads)) {}

int64_t TokenStoreWriter::class_of(const Record& record, const TextFile& file) {
  if (!record.label) {
    if (first_unlabelled_.empty()) first_unlabelled_ = text(file.path.string(), ":", record.line);
    return -1;
  }
  const auto next = static_cast<int64_t>(classes_.size());
  const auto [found, is_new] = classes_.emplace(*record.label, next);
  if (is_new && next == kMaxClasses)
    fail_at(file.path, record.line,
            text("more than ", kMaxClasses, " different labels, the last ", io::quote(*record.label),
                 "; is \"label\" a class?"));
  return found->second;
}

void TokenStoreWriter::Batch::clear() {
  empty_out(words);
  empty_out(ends);
  empty_out(labels);
}

std::string_view TokenStoreWriter::Batch::at(size_t i) const {
  const auto begin = i == 0 ? 0 : ends[i - 1];
  return std::string_view(words).substr(begin, ends[i] - begin);
}

void TokenStoreWriter::add(const Record& record, const TextFile& file) {
  if (record.text.empty()) {
    ++empty_;
    return;
  }
  ++records_;
  batch_.labels.push_back(class_of(record, file));
  batch_.words += record.text;
  batch_.ends.push_back(batch_.words.size());
  if (batch_.words.size() >= kBatch) turn_over();
}

void TokenStoreWriter::turn_over() {
  write_encoded();
  std::swap(batch_, encoding_);
  const auto texts = encoding_.ends.size(), threads = encoded_.size();
  for (size_t i = 0; i < threads; ++i)
    encoded_[i].done = std::async(std::launch::async,
                                  [=, this] { encode(texts * i / threads, texts * (i + 1) / threads, encoded_[i]); });
}

void TokenStoreWriter::encode(size_t first, size_t last, Encoded& out) const {
  for (size_t i = first; i < last; ++i) {
    tokenizer_.encode(encoding_.at(i), out.ids);
    out.ends.push_back(out.ids.size());
  }
}

void TokenStoreWriter::write_encoded() {
  size_t text_number = 0;
  for (auto& part : encoded_) {
    if (part.done.valid()) part.done.get();
    size_t begin = 0;
    for (const auto end : part.ends) {
      SHADE_CHECK(end > begin, "a text of ", encoding_.at(text_number).size(), " bytes has no token");
      const StoredEntry entry{tokens_ + end, encoding_.labels[text_number++]};
      records_file_.add(std::as_bytes(std::span(&entry, 1)));
      begin = end;
    }
    if (width_ == 1) pack<uint8_t>(part.ids, packed_);
    if (width_ == 2) pack<uint16_t>(part.ids, packed_);
    if (width_ == 4) pack<uint32_t>(part.ids, packed_);
    tokens_file_.add(packed_);
    tokens_ += part.ids.size();
    empty_out(packed_);
    empty_out(part.ids);
    empty_out(part.ends);
  }
  encoding_.clear();
}

void TokenStoreWriter::commit(const std::string& key) {
  turn_over();
  write_encoded();
  std::vector<std::string> classes(classes_.size());
  for (const auto& [name, number] : classes_) classes[static_cast<size_t>(number)] = name;
  Json manifest{{"version", kStoreVersion},
                {"key", key},
                {"tokenizer", tokenizer_.describe()},
                {"width", width_},
                {"records", records_},
                {"tokens", tokens_},
                {"empty", empty_},
                {"classes", classes},
                {"first_unlabelled", first_unlabelled_},
                {"tokens_sum", tokens_file_.commit()},
                {"records_sum", records_file_.commit()}};
  manifest["sum"] = manifest_sum(manifest);
  const auto words = print_manifest(manifest);
  NewFile file(place_ / "manifest", file_mode(Readers::owner));
  file.write_at(0, std::as_bytes(std::span(words)));
  file.commit();
}

std::string print_manifest(const Json& manifest) { return manifest.dump(2) + "\n"; }

std::string manifest_sum(Json manifest) {
  manifest.erase("sum");
  return io::to_hex(io::digest_of(manifest.dump()));
}

}  // namespace shade::data
