#include "shade/base/files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/stop_signals.h"
#include "shade/base/strings.h"

namespace shade {

namespace {

// Two writers in one process must not share a temporary file either.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<int> count{0};
  auto name = path;
  name += text(".", ::getpid(), ".", count++, ".tmp");
  return name;
}

}  // namespace

NewFile::NewFile(std::filesystem::path path, std::optional<mode_t> mode)
    : path_(std::move(path)), temporary_(temporary_name(path_)) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode.value_or(0666));
  if (descriptor_ < 0) fail("create", errno);
  if (mode) ::fchmod(descriptor_, *mode);  // what the umask took
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void NewFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  constexpr size_t kAtOnce = size_t{1} << 30;  // Linux writes less than 2 GiB in a call
  while (!bytes.empty()) {
    const auto written =
        ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kAtOnce), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", errno);
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void NewFile::commit() {
  if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) fail("flush", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  ::close(std::exchange(descriptor_, -1));
  const auto folder = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int fault = handle < 0 || uninterrupted([&] { return ::fsync(handle); }) != 0 ? errno : 0;
  if (handle >= 0) ::close(handle);
  if (fault != 0) fail("flush the folder of", fault);
}

void NewFile::fail(const char* step, int fault) const {
  throw Error(
      text("cannot ", step, " ", path_, ": ", reason_of(fault), fault == ENOENT ? "; make its folder first" : ""));
}

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

namespace {

// Where the bytes go. One of the two.
struct Target {
  std::optional<int> descriptor;  // -1: to be opened by name
  std::filesystem::path file;     // to be replaced; links are resolved
  std::optional<mode_t> mode;     // of what is replaced
};

// Descriptors by their names: opening /dev/stdout would begin a redirected file anew, and fails on sockets.
std::optional<int> named_descriptor(const std::string& name) {
  if (name == "/dev/stdout") return STDOUT_FILENO;
  if (name == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"})
    if (name.starts_with(folder))
      if (const auto number = parse_integer(std::string_view(name).substr(folder.size())); number && *number >= 0)
        return static_cast<int>(*number);
  return std::nullopt;
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw UsageError(text("cannot write ", file, ": ", why));
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

// The folder is there, or can be made: the nearest one that is there takes new entries.
void require_folder(const std::filesystem::path& file) {
  auto nearest = folder_of(file);
  std::error_code fault;
  while (!std::filesystem::exists(std::filesystem::symlink_status(nearest, fault)))
    nearest = nearest.has_parent_path() && nearest.parent_path() != nearest ? nearest.parent_path() : ".";
  if (!std::filesystem::is_directory(nearest, fault))
    refuse(file, text(nearest, " is not a folder; name another file"));
  if (nearest != folder_of(file) && ::access(nearest.c_str(), W_OK | X_OK) != 0)
    refuse(file, text("the folder ", folder_of(file), " doesn't exist, and ", nearest,
                      " can't hold it: ", std::strerror(errno)));
}

void make_folder_of(const std::filesystem::path& file) {
  std::error_code fault;
  std::filesystem::create_directories(folder_of(file), fault);
  if (fault) throw Error(text("cannot make the folder ", folder_of(file), ": ", fault.message()));
}

Target new_target(const std::filesystem::path& file) {
  struct stat about{};
  if (::lstat(file.c_str(), &about) == 0)  // so it is a link
    refuse(file, text("it is a symbolic link to ", std::filesystem::read_symlink(file),
                      ", which doesn't exist; remove the link, or name another file"));
  if (!file.has_filename()) refuse(file, "the name of a folder; expected that of a file");
  require_folder(file);
  return {.file = file};
}

Target target_of(const std::filesystem::path& file) {
  if (const auto descriptor = named_descriptor(file.string())) {
    if (::fcntl(*descriptor, F_GETFD) < 0) refuse(file, std::strerror(errno));
    return {.descriptor = descriptor};
  }
  // stat follows links as the kernel allows it: not those that others put into a shared folder (fs.protected_symlinks).
  struct stat about{};
  if (::stat(file.c_str(), &about) != 0) {
    if (errno == ENOENT) return new_target(file);
    refuse(file, errno == ELOOP ? "a symbolic link that leads to itself; remove it" : reason_of(errno));
  }
  if (S_ISDIR(about.st_mode)) refuse(file, "a folder; expected the name of a file");
  if (!S_ISREG(about.st_mode)) return {.descriptor = -1};
  if (::access(file.c_str(), W_OK) != 0) refuse(file, reason_of(errno));
  return {.file = std::filesystem::canonical(file), .mode = about.st_mode & 0777};
}

class OpenOutput {
 public:
  OpenOutput(const std::filesystem::path& file, int number)
      : file_(file),
        number_(number < 0 ? ::open(file.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC) : number),
        owned_(number < 0) {
    if (number_ < 0) fail();
  }
  ~OpenOutput() {
    if (owned_) ::close(number_);
  }
  OpenOutput(const OpenOutput&) = delete;
  OpenOutput& operator=(const OpenOutput&) = delete;

  void write(std::string_view content) const {
    while (!content.empty()) {
      const auto written = ::write(number_, content.data(), content.size());
      if (written < 0 && errno == EAGAIN) {  // a pipe that someone set not to block
        pollfd ready{number_, POLLOUT, 0};
        ::poll(&ready, 1, -1);
      } else if (written < 0 && errno != EINTR) {
        fail();
      }
      if (written > 0) content.remove_prefix(static_cast<size_t>(written));
    }
  }

 private:
  [[noreturn]] void fail() const { throw Error(text("cannot write ", file_, ": ", reason_of(errno))); }

  const std::filesystem::path& file_;
  int number_;
  bool owned_;
};

}  // namespace

void check_output(const std::filesystem::path& file) { target_of(file); }

void require_different(const std::string& option, const std::string& file, const std::string& other,
                       const std::string& other_file) {
  if (file.empty() || other_file.empty()) return;
  std::error_code fault;
  const auto whole = [&](const std::string& name) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(name, fault), fault);
  };
  const bool same = file == other_file || (!named_descriptor(file) && whole(file) == whole(other_file) && !fault);
  SHADE_REQUIRE(!same, option, " and ", other, " name the same file, ", std::filesystem::path(file),
                "; choose two different files");
}

std::filesystem::path regular_output(const std::filesystem::path& file) {
  const auto target = target_of(file);
  if (target.descriptor) refuse(file, "a device or a pipe; expected the name of a regular file");
  make_folder_of(target.file);
  return target.file;
}

void write_output(const std::filesystem::path& file, std::string_view content, Readers readers) {
  const auto target = target_of(file);
  if (target.descriptor) return OpenOutput(file, *target.descriptor).write(content);
  make_folder_of(target.file);
  NewFile fresh(target.file, readers == Readers::owner ? file_mode(readers) : target.mode);
  fresh.write_at(0, std::as_bytes(std::span(content)));
  fresh.commit();
}

}  // namespace shade
