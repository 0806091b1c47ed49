// What can go wrong between ranks.
#pragma once

#include <exception>
#include <string>

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

// A value in the store is not what a rank of this job wrote: somebody else can reach the store. Nothing of the value is
// used or shown.
class SealBroken : public CommError {
 public:
  SealBroken(const std::string& key, const std::string& how)
      : CommError(text("the value of ", key, " in the store ", how,
                       ". Nothing of it was used; let only the job's hosts reach the store's port (SECURITY.md)")) {}
};

inline constexpr const char* kForged = "was written by somebody who doesn't have the job secret";

inline constexpr int kPeerLostStatus = 75;

// Why a job is lost, as its watchdog says it.
struct Loss {
  std::string message;
  bool echo = true;  // of another rank's failure; else it was found here

  int exit_status() const { return echo ? kPeerLostStatus : 1; }
  std::exception_ptr error() const {
    return echo ? std::make_exception_ptr(PeerLost(message)) : std::make_exception_ptr(CommError(message));
  }
};

}  // namespace shade::comm
