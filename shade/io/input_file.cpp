#include "shade/io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "shade/base/error.h"
#include "shade/base/explain.h"

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

}  // namespace shade::io
