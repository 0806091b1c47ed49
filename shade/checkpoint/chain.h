// Lines that vouch for all lines before them: the form of the ledger's file.
//
//   {"incarnation":0,"step":41} 5f0c...e2\n        a record, a space, BLAKE2b(digest of the line before || the record)
//   {"incarn~{"torn":8,...} 91aa...07\n            a record whose writing was interrupted, and the seal put behind it
//
// Nothing is ever removed. A write that a power cut interrupted leaves a last line without its end, or with zeros in
// it; the next process to open the file puts a seal behind it, whose digest covers the torn bytes too. Any other line
// that is not what its digest says is damage, and the file is refused: no later line can be believed. This file knows
// no libtorch, so that it can be fuzzed alone.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/units.h"
#include "shade/hash/digest.h"

namespace shade::checkpoint {

inline constexpr size_t kMaxRecord = size_t{64} << 10;  // bytes of a line

struct Chain {
  std::vector<std::string> records;   // JSON texts; seals among them
  std::vector<hash::Digest> digests;  // of each record's line
  hash::Digest head{};                // of the last line
  size_t torn = 0;                    // bytes behind it, to be sealed
};

// Throws io::FormatError naming the line.
Chain read_chain(std::string_view file);

// The next line. `torn` are the bytes that a seal covers, which are in the file already: what is returned comes behind
// them. A seal's record begins with {"torn":
std::string next_line(hash::Digest& head, std::string_view record, std::string_view torn = {});

// A chained file (chain.h) that several processes append to, one line at a time.
//
// Each takes a lock for the time of one append, reads all that is there, decides by it, writes and flushes. The lock
// goes with the process however that ends. A line whose writing was interrupted counts as nothing: its writer was never
// told that it is there. The next one to append puts a seal behind it.

// The end of the file at some time: who remembers it notices later whether the file still has that line.
struct ChainMark {
  size_t line = 0;  // 1: the first
  std::string digest;

  bool operator==(const ChainMark&) const = default;
};
ChainMark end_of(const Chain& chain);
bool has(const Chain& chain, const ChainMark& mark);

class SharedChain {
 public:
  // `name` is for messages: "the data ledger". Touches nothing.
  SharedChain(std::filesystem::path file, std::string name) : path_(std::move(file)), name_(std::move(name)) {}

  // Makes the file with its first record, readable by its owner alone. Throws UsageError if there is a file.
  void create(const Json& first) const;

  // Proven line by line. Throws UsageError if there is no file, io::FormatError if it is damaged.
  Chain read() const;

  // Under the lock: shows `next` what is there and appends what it returns. When this returns, the record is on the
  // disk. Throws Error if others keep the lock for longer than `patience`.
  using Next = std::function<std::optional<Json>(const Chain& chain)>;
  ChainMark append(const Next& next, Seconds patience = Seconds{60}) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  Chain prove(std::string_view words) const;

  std::filesystem::path path_;
  std::string name_;
};

}  // namespace shade::checkpoint
