#include "shade/data/token_store_writer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shade/base/error.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

constexpr size_t kBatch = size_t{1} << 20;  // bytes of text
constexpr size_t kMaxThreads = 16;

// Only its owner may look into it, whatever the folder around it allows.
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

TokenStoreWriter::TokenStoreWriter(std::filesystem::path place, const Tokenizer& tokenizer, bool users)
    : place_(made(std::move(place))),
      tokenizer_(tokenizer),
      width_(width_of(tokenizer)),
      tokens_file_(place_ / "tokens"),
      records_file_(place_ / "records"),
      counted_file_(place_ / "counted"),
      encoded_(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMaxThreads)) {
  if (users) users_file_.emplace(place_ / "users");
}

void TokenStoreWriter::add_user(const Record& record, const TextFile& file) {
  if (!users_file_) return;
  if (!record.user || record.user->empty())
    throw io::FormatError(text(place_in(file, record.line),
                               ": the record names no user, and each must (--user-field): a run that protects users "
                               "couldn't tell whose it is"));
  const auto id = user_id(*record.user);
  users_file_->add(std::as_bytes(std::span(id)));
}

int64_t TokenStoreWriter::class_of(const Record& record, const TextFile& file) {
  if (!record.label) {
    if (first_unlabelled_.empty()) first_unlabelled_ = place_in(file, record.line);
    return -1;
  }
  const auto next = static_cast<int64_t>(classes_.size());
  const auto [found, is_new] = classes_.emplace(*record.label, next);
  if (is_new && next == kMaxClasses)
    throw io::FormatError(text(place_in(file, record.line), ": more than ", kMaxClasses, " different labels, the last ",
                               io::quote(*record.label), "; is the label a class?"));
  return found->second;
}

void TokenStoreWriter::Batch::add(std::span<const Part> parts) {
  for (const auto& part : parts) {
    words += part.text;
    part_ends.push_back(words.size());
    counted.push_back(part.counted ? 1 : 0);
  }
  ends.push_back(part_ends.size());
}

std::vector<PartText> TokenStoreWriter::Batch::at(size_t i) const {
  std::vector<PartText> parts;
  for (auto part = i == 0 ? 0 : ends[i - 1]; part < ends[i]; ++part) {
    const auto begin = part == 0 ? 0 : part_ends[part - 1];
    parts.push_back({std::string_view(words).substr(begin, part_ends[part] - begin), counted[part] != 0});
  }
  return parts;
}

void TokenStoreWriter::Batch::clear() {
  empty_out(words);
  empty_out(part_ends);
  empty_out(counted);
  empty_out(ends);
  empty_out(labels);
}

void TokenStoreWriter::add(const Record& record, const TextFile& file) {
  if (record.bytes() == 0) {
    ++empty_;
    return;
  }
  if (records_ == 0) framed_ = record.framed;
  SHADE_CHECK(record.framed == framed_, "conversations among other records");
  add_user(record, file);
  ++records_;
  batch_.labels.push_back(class_of(record, file));
  batch_.add(record.parts);
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
    encode_parts(tokenizer_, encoding_.at(i), out.ids, out.counted);
    out.ends.push_back(out.ids.size());
  }
}

void TokenStoreWriter::write_encoded() {
  size_t record = 0;
  for (auto& part : encoded_) {
    if (part.done.valid()) part.done.get();
    for (const auto end : part.ends) {
      const StoredEntry entry{tokens_ + end, encoding_.labels[record++]};
      records_file_.add(std::as_bytes(std::span(&entry, 1)));
    }
    if (width_ == 1) pack<uint8_t>(part.ids, packed_);
    if (width_ == 2) pack<uint16_t>(part.ids, packed_);
    if (width_ == 4) pack<uint32_t>(part.ids, packed_);
    tokens_file_.add(packed_);
    counted_file_.add(part.counted);
    tokens_ += part.ids.size();
    empty_out(packed_);
    empty_out(part.ids);
    empty_out(part.counted);
    empty_out(part.ends);
  }
  encoding_.clear();
}

void TokenStoreWriter::commit(const std::string& key, const std::string& fields) {
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
                {"fields", fields},
                {"tokens_sum", tokens_file_.commit()},
                {"records_sum", records_file_.commit()}};
  if (const auto sum = counted_file_.commit(); !sum.empty()) manifest["counted_sum"] = sum;
  if (!framed_) manifest["framed"] = false;
  if (users_file_) manifest["users_sum"] = users_file_->commit();
  manifest["sum"] = manifest_sum(manifest);
  const auto words = print_manifest(manifest);
  NewFile file(place_ / "manifest", file_mode(Readers::owner));
  file.write_at(0, std::as_bytes(std::span(words)));
  file.commit();
}

std::string print_manifest(const Json& manifest) { return manifest.dump(2) + "\n"; }

std::string manifest_sum(Json manifest) {
  manifest.erase("sum");
  return hash::to_hex(hash::digest_of(manifest.dump()));
}

namespace {

// What follows a special token. With that token before it: a tokenizer may treat the begin of a text in its own way.
std::vector<TokenId> encode_after(const Tokenizer& tokenizer, std::span<const TokenId> before,
                                  const std::string& text) {
  std::vector<TokenId> ids;
  if (!before.empty()) {
    tokenizer.encode(tokenizer.decode(before.last(1), /*special=*/true) + text, ids);
    if (!ids.empty() && ids.front() == before.back()) {
      ids.erase(ids.begin());
      return ids;
    }
    ids.clear();
  }
  tokenizer.encode(text, ids);
  return ids;
}

// The tokens of prompt and answer in a row, and how many of them are the prompt's.
size_t encode_pair(const Tokenizer& tokenizer, const std::string& prompt, std::string_view answer,
                   std::vector<TokenId>& ids) {
  const auto alone = encode_after(tokenizer, ids, prompt);
  if (answer.empty()) {
    ids.insert(ids.end(), alone.begin(), alone.end());
    return alone.size();
  }
  auto both = encode_after(tokenizer, ids, prompt + std::string(answer));
  if (both.size() < alone.size() || !std::equal(alone.begin(), alone.end(), both.begin())) {
    both = alone;
    tokenizer.encode(answer, both);
  }
  ids.insert(ids.end(), both.begin(), both.end());
  return alone.size();
}

}  // namespace

void encode_parts(const Tokenizer& tokenizer, std::span<const PartText> parts, std::vector<TokenId>& ids,
                  std::vector<uint8_t>& counted) {
  if (parts.size() == 1 && parts[0].counted) {
    tokenizer.encode(parts[0].text, ids);
    counted.resize(ids.size(), 1);
    return;
  }
  std::vector<TokenId> record;
  for (size_t i = 0; i < parts.size();) {
    std::string prompt, answer;
    while (i < parts.size() && !parts[i].counted) prompt += parts[i++].text;
    while (i < parts.size() && parts[i].counted) answer += parts[i++].text;
    const auto begin = record.size();
    const auto given = encode_pair(tokenizer, prompt, answer, record);
    counted.resize(counted.size() + given, 0);
    counted.resize(counted.size() + record.size() - begin - given, 1);
  }
  ids.insert(ids.end(), record.begin(), record.end());
}

void CountedWriter::add(std::span<const uint8_t> counted) {
  if (!file_) {
    if (std::ranges::find(counted, 0) == counted.end()) {
      tokens_ += counted.size();
      return;
    }
    file_.emplace(path_);
    for (auto before = std::exchange(tokens_, 0); before > 0; --before) add_bit(true);
  }
  for (const auto one : counted) add_bit(one != 0);
}

void CountedWriter::add_bit(bool counted) {
  if (counted) bits_ |= static_cast<uint8_t>(1U << (tokens_ % 8));
  if (++tokens_ % 8 == 0) file_->add(std::as_bytes(std::span(&bits_, 1))), bits_ = 0;
}

std::string CountedWriter::commit() {
  if (!file_) return {};
  if (tokens_ % 8 != 0) file_->add(std::as_bytes(std::span(&bits_, 1)));
  return file_->commit();
}

void read_counted(const io::InputFile& file, uint64_t begin, std::span<uint8_t> counted) {
  if (counted.empty()) return;
  const auto first = begin / 8;
  std::vector<std::byte> bytes(counted_bytes(begin + counted.size()) - first);
  file.read_at(first, bytes);
  for (size_t i = 0; i < counted.size(); ++i) {
    const auto bit = begin - first * 8 + i;
    counted[i] = static_cast<uint8_t>(std::to_integer<unsigned>(bytes[bit / 8]) >> (bit % 8) & 1U);
  }
}

}  // namespace shade::data
