// What can go wrong between ranks.
#pragma once

#include "shade/base/error.h"

namespace shade::comm {

// A collective did not complete, or the world could not be made.
class CommError : public Error {
 public:
  using Error::Error;
};

// A consequence of another rank's failure. Exit status kPeerLostStatus, so that a launcher that sees several ranks end
// can tell the first cause from its echoes.
class PeerLost : public CommError {
 public:
  using CommError::CommError;
};

inline constexpr int kPeerLostStatus = 75;

}  // namespace shade::comm
