// The documents of a store as streams of positions, to be cut into windows: one of those that are trained on, one of
// those held out. A document of n tokens takes n + 1 positions, or n if it has ends of its own (text_dataset.h).
//
// A document is in one stream or the other as a whole, so that no window of the one has a token of the other. 24 bytes
// of memory for each document that is held out, and none for the others.
#pragma once

#include "shade/data/token_store.h"

namespace shade::data {

enum class Use { training, held_out };

// Const methods are thread-safe.
class DocumentStream {
 public:
  // Throws UsageError if `held_out` doesn't ascend or names no record of the store.
  DocumentStream(std::shared_ptr<const TokenStore> store, std::span<const int64_t> held_out);

  uint64_t positions(Use use) const { return use == Use::held_out ? held_out_ : all_ - held_out_; }

  // Where a position of a stream falls.
  struct Place {
    int64_t document = 0;
    uint64_t offset = 0;
  };
  Place find(Use use, uint64_t position) const;
  int64_t after(Use use, int64_t document) const;  // the next one of the stream; records() of the store: none

 private:
  struct HeldOut {
    int64_t document = 0;
    uint64_t begin = 0;   // in the stream of all documents
    uint64_t before = 0;  // positions of those held out before it
  };

  std::shared_ptr<const TokenStore> store_;
  uint64_t frame_;  // positions of a document beyond its tokens
  std::vector<HeldOut> out_;
  uint64_t all_ = 0, held_out_ = 0;  // positions
};

}  // namespace shade::data
