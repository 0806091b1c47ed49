// Makes the files of a TokenStore from a stream of records.
#pragma once

#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "shade/base/json.h"
#include "shade/data/appender.h"
#include "shade/data/token_store.h"
#include "shade/data/tokenizer/tokenizer.h"
#include "shade/io/input_file.h"

namespace shade::data {

// The tokens of a record's parts, and which of them count in the loss.
//
// The tokens of what is not counted, a prompt, are those that it has alone: they are what the model is given when it
// generates. Where the tokenizer joins the end of a prompt with the begin of what follows ("is " and "it" to " it"),
// the text is therefore tokenized in two; elsewhere as a whole, which gives transformers' ids. No token is half
// counted.
//
//   cost: each text once, prompts twice
struct PartText {
  std::string_view text;
  bool counted = true;
};

// Appends ids, and for each whether it is counted. A part that is not counted may follow a counted one only if that
// ends with a special token, as turns of a conversation do: the tokens on both sides of one don't depend on each other.
void encode_parts(const Tokenizer& tokenizer, std::span<const PartText> parts, std::vector<TokenId>& ids,
                  std::vector<uint8_t>& counted);

// Which tokens of a store count in the loss: a file of one bit per token, that of token 0 the lowest of byte 0. There
// is no file if all tokens count.
class CountedWriter {
 public:
  explicit CountedWriter(std::filesystem::path path) : path_(std::move(path)) {}

  // The next tokens: 1 if it counts, else 0.
  void add(std::span<const uint8_t> counted);
  // The digest of the file, as hex; empty: all tokens count, and there is none.
  std::string commit();

 private:
  void add_bit(bool counted);

  std::filesystem::path path_;
  std::optional<Appender> file_;  // from the first token on that does not count
  uint64_t tokens_ = 0;
  uint8_t bits_ = 0;  // of the byte that is not full
};

inline uint64_t counted_bytes(uint64_t tokens) { return (tokens + 7) / 8; }

// Of tokens [begin, begin + counted.size()).
void read_counted(const io::InputFile& file, uint64_t begin, std::span<uint8_t> counted);

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
