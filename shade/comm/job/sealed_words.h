// Small control messages of a group, sealed with the job secret on their way: keys, words from the ledger, errors.
// A message that was changed, or is another operation's, is a CommError. Collective; both block.
#pragma once

#include "shade/comm/group.h"

namespace shade::comm {

// Rank 0's bytes, on every rank.
void share(const Group& group, std::span<uint8_t> bytes, const std::string& label);

// Every rank's words, none longer than `most` bytes and without '\0'.
std::vector<std::string> gather_words(const Group& group, const std::string& words, size_t most,
                                      const std::string& label);

}  // namespace shade::comm
