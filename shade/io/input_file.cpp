#include "shade/io/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/stop_signals.h"
#include "shade/io/errors.h"

namespace shade::io {

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // Without O_NONBLOCK the open of a named pipe would wait for a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw Error(text("cannot open ", path_, ": ", reason_of(errno)));
  struct stat status{};
  const bool regular = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  if (!regular) ::close(descriptor_);
  if (!regular) throw Error(text("cannot read ", path_, ": expected a regular file"));
  size_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  constexpr size_t kAtOnce = size_t{1} << 30;  // Linux reads less than 2 GiB in a call
  while (!bytes.empty()) {
    const auto got = ::pread(descriptor_, bytes.data(), std::min(bytes.size(), kAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(text("cannot read ", path_, ": ", reason_of(errno)));
    if (got == 0)
      throw Error(text("cannot read ", path_, " at byte ", offset, ": it became shorter while it was read"));
    offset += static_cast<uint64_t>(got);
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // Without O_NONBLOCK the open of a named pipe would wait for a writer.
  const Descriptor file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!file) throw_file_fault(errno, text("cannot open ", path, ": "));
  return map(file, path);
}

std::shared_ptr<const MappedFile> MappedFile::map(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status{};
  const bool known = ::fstat(*file, &status) == 0;
  void* address = nullptr;
  int fault = known ? 0 : errno;
  const auto size = static_cast<size_t>(status.st_size);
  if (known && S_ISREG(status.st_mode) && size > 0) {
    address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, *file, 0);
    if (address == MAP_FAILED) fault = errno;
  }
  if (fault != 0) throw_file_fault(fault, text("cannot map ", path, " (", size, " bytes): "));
  if (!S_ISREG(status.st_mode))
    throw FormatError(text("cannot read ", path, ": expected a regular file, found ",
                           S_ISDIR(status.st_mode) ? "a folder" : "a device, pipe or socket"));
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::drop(std::span<const std::byte> part) const {
  if (part.empty()) return;
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const auto aligned = begin / page * page;
  // Refused only for pages that are locked into memory (mlockall): those are meant to stay.
  ::madvise(reinterpret_cast<void*>(aligned), begin - aligned + part.size(), MADV_DONTNEED);
}

}  // namespace shade::io
