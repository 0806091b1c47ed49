// The tokens of a folder, made once and kept on disk: records of any number are read by position, none is held.
//
//   <cache>/<key>/tokens           ids of all records, one after another, in 1, 2 or 4 bytes each
//                 records          for each record where its tokens end, and its class
//                 counted          which tokens count in the loss, one bit each (data/token_store_writer.h), unless all
//                 users            for each record whose it is (data/users.h), if a field of users was named
//                 manifest         what was read, counts, class names, checksums; written last, so it vouches for both
//
// The key is a hash of all that decides the content: the folder's path, the files' names, sizes and times, the
// tokenizer, the text unit, the names of fields, the chat template, the limit of records. What fails its checksum is
// made again. Reading a record costs two system calls; memory does not grow with the folder, but by 8 bytes for every
// 1024 records.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shade/data/records.h"
#include "shade/data/tokenizer/tokenizer.h"
#include "shade/data/users.h"
#include "shade/io/input_file.h"

namespace shade::data {

// Who has just read all bytes of a store against their checksums, so that this process need not: its manifest and the
// sizes of its files are checked alone.
struct Proof {
  bool on_this_host = false;  // another process here has
  std::string witness{};      // one of another host has, if this file is in the store's folder (data/witness.h)
};

struct StoreRequest {
  std::filesystem::path folder;  // or one file
  RecordOptions records{};
  int64_t max_records = 0;      // 0: all
  std::filesystem::path cache;  // empty: .shade in the folder
  Proof proof{};
};

// Const methods are thread-safe.
class TokenStore {
 public:
  struct Entry {
    uint64_t begin = 0, end = 0;  // tokens
    int64_t label = -1;           // index into classes(); -1: none
  };

  // Opens what the cache has, or reads the folder and writes it. One process does so, others wait for it. Throws
  // io::FormatError naming file and line for a bad file or a record without a user, UsageError if there is no record.
  static std::shared_ptr<const TokenStore> open(const StoreRequest& request, const Tokenizer& tokenizer);

  int64_t records() const { return records_; }
  int64_t tokens() const { return tokens_; }
  int64_t empty_records() const { return empty_; }  // left out: their text is empty
  bool reused() const { return reused_; }           // from the cache, nothing was read
  const std::filesystem::path& place() const { return place_; }
  // Checksums of all tokens, where records end and their labels: equal only for equal records.
  const std::string& content() const { return content_; }

  const std::string& fields() const { return fields_; }  // that records were made of, as RecordFields describes them
  const std::vector<std::string>& classes() const { return classes_; }       // sorted; whole numbers by value
  const std::string& first_unlabelled() const { return first_unlabelled_; }  // "file:line"; empty: all have one

  Entry entry(int64_t record) const;
  std::vector<Entry> entries(int64_t first, int64_t count) const;
  bool has_users() const { return user_file_ != nullptr; }
  UserId user_of(int64_t record) const;  // of a store that has users
  // Tokens [begin, begin + ids.size()) of the concatenation of all records.
  void read(uint64_t begin, std::span<int64_t> ids) const;

  bool all_counted() const { return counted_file_ == nullptr; }  // every token counts in the loss
  // Whether tokens [begin, begin + counted.size()) count: 1 or 0.
  void read_counted(uint64_t begin, std::span<uint8_t> counted) const;
  bool framed() const { return framed_; }  // bos and eos are to be set around a record; false: it has its own

  // The record in which position p falls if every record is followed by `extra` more positions, and where it begins.
  struct Found {
    int64_t record = 0;
    uint64_t begin = 0;
  };
  Found find(uint64_t position, uint64_t extra) const;

 private:
  TokenStore(std::filesystem::path place, const std::string& key, bool proven);  // throws Error if it isn't whole
  void check_sums(const std::function<std::string(const char*)>& stated) const;

  std::filesystem::path place_;
  std::string content_;
  int64_t records_ = 0, tokens_ = 0, empty_ = 0, width_ = 1;
  bool reused_ = true, framed_ = true;
  std::vector<std::string> classes_;
  std::vector<int64_t> class_order_;  // number in the file -> index into classes_
  std::string first_unlabelled_, fields_;
  std::unique_ptr<io::InputFile> token_file_, record_file_, counted_file_, user_file_;
  std::vector<uint64_t> begins_;  // of every 1024th record
};

}  // namespace shade::data
