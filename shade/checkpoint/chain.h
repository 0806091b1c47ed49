// Lines that vouch for all lines before them: the form of the ledger's file.
//
//   {"incarnation":0,"step":41} 5f0c...e2\n        a record, a space, BLAKE2b(digest of the line before || the record)
//   {"incarn~{"torn":8,...} 91aa...07\n            a record whose writing was interrupted, and the seal put behind it
//
// Nothing is ever removed. A write that a power cut interrupted leaves a last line without its end, or with zeros in
// it; whoever opens the file next puts a seal behind it, whose digest covers the torn bytes too. Any other line that is
// not what its digest says is damage, and the file is refused: no later line can be believed. This file knows no
// libtorch, so that it can be fuzzed alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shade/io/digest.h"

namespace shade::checkpoint {

inline constexpr size_t kMaxRecord = size_t{64} << 10;  // bytes of a line

struct Chain {
  std::vector<std::string> records;  // JSON texts; seals among them
  std::vector<io::Digest> digests;   // of each record's line
  io::Digest head{};                 // of the last line
  size_t torn = 0;                   // bytes behind it, to be sealed
};

// Throws io::FormatError naming the line.
Chain read_chain(std::string_view file);

// The next line. `torn` are the bytes that a seal covers, which are in the file already: what is returned comes behind
// them. A seal's record begins with {"torn":
std::string next_line(io::Digest& head, std::string_view record, std::string_view torn = {});

}  // namespace shade::checkpoint
