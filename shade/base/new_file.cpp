#include "shade/base/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/interrupted.h"

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

}  // namespace shade
