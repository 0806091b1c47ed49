#include "shade/checkpoint/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shade/base/error.h"

namespace shade::checkpoint {

FileLock::FileLock(const std::filesystem::path& file, const char* owner)
    : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0) throw Error(text("cannot open ", file, ": ", std::strerror(errno)));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int fault = errno;
  ::close(descriptor_);
  SHADE_REQUIRE(fault != EWOULDBLOCK, file, " is in use by another run; ", owner,
                " belongs to one run at a time: wait for it, or give this one a folder of its own");
  throw Error(text("cannot lock ", file, ": ", std::strerror(fault)));
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace shade::checkpoint
