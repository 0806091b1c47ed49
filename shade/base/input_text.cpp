#include "shade/base/input_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "shade/base/descriptor.h"
#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/stop_signals.h"

namespace shade {
namespace {

bool is_open_descriptor(const std::string& name) {
  return name == "/dev/stdin" || name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/");
}

}  // namespace

void require_readable(const std::filesystem::path& file) {
  struct stat about{};
  if (::stat(file.c_str(), &about) != 0 || S_ISREG(about.st_mode)) return;
  if (S_ISFIFO(about.st_mode) && is_open_descriptor(file.string())) return;
  throw UsageError(
      text("cannot read ", file, ": ",
           S_ISDIR(about.st_mode) ? "a folder; expected a file" : "a device, pipe or socket; expected a regular file"));
}

std::string read_text(const std::filesystem::path& file, Bytes most) {
  require_readable(file);
  const Descriptor in(uninterrupted([&] { return ::open(file.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!in) throw Error(text("cannot read ", file, ": ", reason_of(errno)));
  std::string out;
  std::array<char, 1 << 16> part{};
  while (true) {
    const auto count = uninterrupted([&] { return ::read(*in, part.data(), part.size()); });
    if (count < 0) throw Error(text("cannot read ", file, ": ", reason_of(errno)));
    if (count == 0) return out;
    out.append(part.data(), static_cast<size_t>(count));
    if (std::ssize(out) > most.count)
      throw Error(
          text("cannot read ", file, ": it has more than ", to_string(most), "; is it the file that you mean?"));
  }
}

}  // namespace shade
