// What can be wrong with a file besides its absence.
#pragma once

#include "shade/base/error.h"

namespace shade::io {

// The bytes are not what the format says. Files come from strangers: nothing of such a file has been used.
class FormatError : public Error {
 public:
  using Error::Error;
};

}  // namespace shade::io
