// Makes the files of a TokenStore from a stream of records.
#pragma once

#include <future>
#include <map>

#include "shade/base/json.h"
#include "shade/base/new_file.h"
#include "shade/base/private_file.h"
#include "shade/data/token_store.h"
#include "shade/io/digest.h"

namespace shade::data {

inline constexpr int kStoreVersion = 2;
inline constexpr int64_t kMaxClasses = 65536;

// What lies in `records`, little-endian.
struct StoredEntry {
  uint64_t end;
  int64_t label;
};

// Appends through a buffer and sums what it wrote.
class Appender {
 public:
  explicit Appender(const std::filesystem::path& path) : file_(path, file_mode(Readers::owner)) {}
  void add(std::span<const std::byte> bytes);
  std::string commit();  // the digest, as hex

 private:
  void flush();

  NewFile file_;
  uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
  io::Hasher hasher_;
};

// Texts are encoded by threads, a batch while the next one is read; what is written is the same for any number of them.
// Batches and threads keep their buffers, so the memory in use does not depend on how much was read.
class TokenStoreWriter {
 public:
  // Makes the folder `place`.
  TokenStoreWriter(std::filesystem::path place, const Tokenizer& tokenizer);

  void add(const Record& record, const TextFile& file);
  int64_t records() const { return records_; }  // added, without the empty ones
  int64_t empty() const { return empty_; }
  void commit(const std::string& key);

 private:
  struct Batch {
    std::string words;         // all texts, one after the other
    std::vector<size_t> ends;  // of each, in words
    std::vector<int64_t> labels;

    void clear();
    std::string_view at(size_t i) const;
  };

  // What one thread makes of consecutive texts of a batch.
  struct Encoded {
    std::vector<TokenId> ids;
    std::vector<size_t> ends;  // of each text, in ids
    std::future<void> done;
  };

  int64_t class_of(const Record& record, const TextFile& file);
  void turn_over();  // the batch goes to the threads; what they had is written
  void encode(size_t first, size_t last, Encoded& out) const;
  void write_encoded();

  std::filesystem::path place_;
  const Tokenizer& tokenizer_;
  int width_;
  Appender tokens_file_, records_file_;
  int64_t records_ = 0, empty_ = 0;
  uint64_t tokens_ = 0;
  std::map<std::string, int64_t, std::less<>> classes_;
  std::string first_unlabelled_;
  Batch batch_, encoding_;
  std::vector<std::byte> packed_;
  std::vector<Encoded> encoded_;  // its threads are at work on encoding_, and so end before it
};

std::string print_manifest(const Json& manifest);

// The manifest's own digest: of its text without that key.
std::string manifest_sum(Json manifest);

}  // namespace shade::data
