// What is known to be wrong with a file itself.
#pragma once

#include "shade/base/error.h"

namespace shade::io {

// The bytes are not what the format says, or there is no such file: another try would find the same. Files are
// untrusted: nothing of such a file has been used.
class FormatError : public Error {
 public:
  using Error::Error;
};

}  // namespace shade::io
