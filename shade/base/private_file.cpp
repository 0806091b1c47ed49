#include "shade/base/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shade/base/error.h"
#include "shade/base/explain.h"

namespace shade {
namespace {

constexpr mode_t kOthers = S_IRWXG | S_IRWXO;

}  // namespace

void make_folder(const std::filesystem::path& folder, Readers readers) {
  std::error_code fault;
  if (readers == Readers::owner) {
    const auto last = folder.has_filename() ? folder : folder.parent_path();  // "a/b/" is b in a
    if (last.has_parent_path()) std::filesystem::create_directories(last.parent_path(), fault);
    if (!fault && ::mkdir(last.c_str(), S_IRWXU) != 0 && errno != EEXIST) fault = {errno, std::generic_category()};
    if (!fault && std::filesystem::is_directory(last, fault)) close_to_others(last);
  }
  if (!fault) std::filesystem::create_directories(folder, fault);
  if (fault) throw Error(text("cannot make the folder ", folder, ": ", reason_of(fault.value())));
}

void make_file(const std::filesystem::path& file, Readers readers) {
  if (readers == Readers::by_umask) return;
  // Not to wait for the reader of a FIFO, and never to change the mode of a device.
  const int descriptor =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, S_IRUSR | S_IWUSR);
  struct stat about{};
  const bool regular = descriptor >= 0 && ::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
  const bool closed = regular && ((about.st_mode & kOthers) == 0 || ::fchmod(descriptor, S_IRUSR | S_IWUSR) == 0);
  const int why = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (closed) return;
  const bool strange = why == ELOOP || (descriptor >= 0 && !regular);
  throw Error(text("cannot make ", file, " readable by its owner alone: ",
                   strange ? "a link or a device; expected a regular file, or none" : reason_of(why)));
}

void close_to_others(const std::filesystem::path& path) {
  struct stat about{};
  if (::lstat(path.c_str(), &about) != 0 || S_ISLNK(about.st_mode) || about.st_uid != ::geteuid() ||
      (about.st_mode & kOthers) == 0)
    return;
  if (::chmod(path.c_str(), about.st_mode & ~kOthers & 07777) != 0)
    throw Error(text("cannot close ", path, " to others: ", std::strerror(errno)));
}

bool open_to_others(const std::filesystem::path& path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 && (about.st_mode & kOthers) != 0;
}

bool belongs_to_other(const std::filesystem::path& path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 && about.st_uid != ::geteuid();
}

}  // namespace shade
