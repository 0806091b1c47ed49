// What is known to be wrong with a file itself.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "shade/base/error.h"

namespace shade::io {

// The bytes are not what the format says, or there is no such file: another try would find the same. Files are
// untrusted: nothing of such a file has been used.
class FormatError : public Error {
 public:
  using Error::Error;
};

// Throws for a system call on a file that failed with `fault` (errno). A FormatError if it is known that there is no
// file. All else (permissions, a disk or a network that doesn't answer) says nothing of the file, which may be whole: a
// UsageError, somebody has to see to it.
[[noreturn]] inline void throw_file_fault(int fault, const std::string& what) {
  for (const int of_the_file : {ENOENT, ENOTDIR, ELOOP, ENXIO})
    if (fault == of_the_file) throw FormatError(what + std::strerror(fault));
  throw UsageError(what + std::strerror(fault));
}

}  // namespace shade::io
