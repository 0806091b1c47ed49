#include "shade/checkpoint/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shade/base/error.h"

namespace shade::checkpoint {

FileLock::FileLock(const std::filesystem::path& file, const char* owner)
    : descriptor_(::open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  if (descriptor_ < 0)
    throw Error(text("cannot open ", file, ": ",
                     errno == ELOOP ? "a symbolic link; expected the file itself" : std::strerror(errno)));
  struct stat about{};
  if (::fstat(descriptor_, &about) == 0 && about.st_uid == ::geteuid()) ::fchmod(descriptor_, 0600);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int fault = errno;
  ::close(descriptor_);
  SHADE_REQUIRE(fault != EWOULDBLOCK, file, " is in use by another run; ", owner,
                " belongs to one run at a time: wait for it, or give this one another folder");
  throw Error(text("cannot lock ", file, ": ", std::strerror(fault)));
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace shade::checkpoint
