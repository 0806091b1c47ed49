// A chained file (chain.h) that several processes append to, one line at a time.
//
// Each takes a lock for the time of one append, reads all that is there, decides by it, writes and flushes. The lock
// goes with the process however that ends. A line whose writing was interrupted counts as nothing: its writer was never
// told that it is there. The next one to append puts a seal behind it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "shade/base/json.h"
#include "shade/base/units.h"
#include "shade/checkpoint/chain.h"

namespace shade::checkpoint {

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
