// Makes the files of a TokenStore from a stream of records.
#pragma once

#include <future>
#include <map>

#include "shade/base/json.h"
#include "shade/data/checksum.h"
#include "shade/data/token_store.h"
#include "shade/io/new_file.h"

namespace shade::data {

inline constexpr int kStoreVersion = 1;
inline constexpr int64_t kMaxClasses = 65536;

// What lies in `records`, little-endian.
struct StoredEntry {
  uint64_t end;
  int64_t label;
};

// Appends through a buffer and sums what it wrote.
class Appender {
 public:
  explicit Appender(const std::filesystem::path& path) : file_(path) {}
  void add(std::span<const std::byte> bytes);
  std::string commit();  // the checksum

 private:
  void flush();

  io::NewFile file_;
  uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
  Checksum sum_;
};

// Texts are encoded by threads, a batch while the next one is read; what is written is the same for any number of them.
class TokenStoreWriter {
 public:
  // Makes the folder `place`.
  TokenStoreWriter(std::filesystem::path place, const Tokenizer& tokenizer);

  void add(Record&& record, const TextFile& file);
  int64_t records() const { return records_; }  // added, without the empty ones
  int64_t empty() const { return empty_; }
  void commit(const std::string& key);

 private:
  struct Text {
    std::string words;
    int64_t label = -1;
    std::vector<TokenId> ids;
  };

  int64_t class_of(const Record& record, const TextFile& file);
  void turn_over();  // the batch goes to the threads; what they had is written
  void write_encoded();

  std::filesystem::path place_;
  const Tokenizer& tokenizer_;
  int width_;
  Appender tokens_file_, records_file_;
  int64_t records_ = 0, empty_ = 0;
  uint64_t tokens_ = 0;
  std::map<std::string, int64_t, std::less<>> classes_;
  std::string first_unlabelled_;
  std::vector<Text> batch_, encoded_;
  size_t batch_bytes_ = 0;
  std::vector<std::byte> packed_;
  std::vector<std::future<void>> threads_;  // at work on encoded_, and so ended before it
};

std::string print_manifest(const Json& manifest);

// The manifest's own checksum: of its text without that key.
std::string manifest_sum(Json manifest);

}  // namespace shade::data
