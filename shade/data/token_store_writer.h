// Makes the files of a TokenStore from a stream of records.
#pragma once

#include <future>
#include <map>
#include <optional>

#include "shade/base/json.h"
#include "shade/data/appender.h"
#include "shade/data/counted_tokens.h"
#include "shade/data/part_tokens.h"
#include "shade/data/token_store.h"

namespace shade::data {

inline constexpr int kStoreVersion = 3;
inline constexpr int64_t kMaxClasses = 65536;

// What lies in `records`, little-endian.
struct StoredEntry {
  uint64_t end;
  int64_t label;
};

// Texts are encoded by threads, a batch while the next one is read; what is written is the same for any number of them.
// Batches and threads keep their buffers, so the memory in use does not depend on how much was read.
class TokenStoreWriter {
 public:
  // Makes the folder `place`. `users`: whose each record is is kept too.
  TokenStoreWriter(std::filesystem::path place, const Tokenizer& tokenizer, bool users = false);

  // Throws io::FormatError naming file and line: too many labels, no user where users are kept. Conversations are not
  // mixed with other records.
  void add(const Record& record, const TextFile& file);
  int64_t records() const { return records_; }  // added, without the empty ones
  int64_t empty() const { return empty_; }
  void commit(const std::string& key, const std::string& fields);

 private:
  struct Batch {
    std::string words;              // the texts of all parts, one after the other
    std::vector<size_t> part_ends;  // of each part, in words
    std::vector<uint8_t> counted;   // each part
    std::vector<size_t> ends;       // of each record, in part_ends
    std::vector<int64_t> labels;

    void add(std::span<const Part> parts);
    std::vector<PartText> at(size_t i) const;
    void clear();
  };

  // What one thread makes of consecutive records of a batch.
  struct Encoded {
    std::vector<TokenId> ids;
    std::vector<uint8_t> counted;  // each id
    std::vector<size_t> ends;      // of each record, in ids
    std::future<void> done;
  };

  int64_t class_of(const Record& record, const TextFile& file);
  void add_user(const Record& record, const TextFile& file);
  void turn_over();  // the batch goes to the threads; what they had is written
  void encode(size_t first, size_t last, Encoded& out) const;
  void write_encoded();

  std::filesystem::path place_;
  const Tokenizer& tokenizer_;
  int width_;
  Appender tokens_file_, records_file_;
  CountedWriter counted_file_;
  std::optional<Appender> users_file_;
  int64_t records_ = 0, empty_ = 0;
  uint64_t tokens_ = 0;
  bool framed_ = true;  // Record::framed of all
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
