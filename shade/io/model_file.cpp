#include "shade/io/model_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "shade/base/descriptor.h"
#include "shade/base/error.h"
#include "shade/base/stop_signals.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::io {
namespace {

namespace fs = std::filesystem;

std::string name_of(const Descriptor& open) { return text("/proc/self/fd/", *open); }

// What is open, by the path that the kernel knows: without links.
fs::path real_path(const Descriptor& open) {
  std::error_code fault;
  auto out = fs::read_symlink(name_of(open), fault);
  if (fault) throw Error(text("cannot tell where an open file is: ", fault.message(), "; is /proc mounted?"));
  return out;
}

bool is_below(const fs::path& file, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return end == folder.end() && rest != file.end();
}

// Where the files of a snapshot are, if the folder is (in) one: models--X/blobs for models--X/snapshots/COMMIT.
std::optional<fs::path> hub_blobs(const fs::path& folder) {
  for (auto snapshot = folder; snapshot.has_relative_path(); snapshot = snapshot.parent_path()) {
    const auto snapshots = snapshot.parent_path(), model = snapshots.parent_path();
    if (snapshots.filename() == "snapshots" && model.filename().string().starts_with("models--"))
      return model / "blobs";
  }
  return std::nullopt;
}

void require_inside(const fs::path& file, const fs::path& real, const fs::path& folder) {
  if (is_below(real, folder) || real.parent_path() == hub_blobs(folder)) return;
  throw FormatError(text("cannot read ", file, ": it leads to ", real, ", outside the model's folder ", folder,
                         "; replace the link by a copy of the file"));
}

}  // namespace

bool has_model_file(const fs::path& folder, const fs::path& name) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(folder / name, ignored));
}

std::shared_ptr<const MappedFile> open_model_file(const fs::path& folder, const fs::path& name) {
  const auto file = folder / name;
  const auto opened = [&](int below, const std::string& path, int flags) {
    const int descriptor = uninterrupted([&] { return ::openat(below, path.c_str(), flags | O_CLOEXEC); });
    if (descriptor < 0) throw_file_fault(errno, text("cannot open ", file, ": "));
    return descriptor;
  };
  // O_PATH only finds a file. It is opened through the descriptor once it is known to be inside: no device or pipe
  // elsewhere is touched.
  const Descriptor place(opened(AT_FDCWD, folder.empty() ? "." : folder.string(), O_PATH | O_DIRECTORY));
  const Descriptor found(opened(*place, name.string(), O_PATH));
  require_inside(file, real_path(found), real_path(place));
  return MappedFile::map(Descriptor(opened(AT_FDCWD, name_of(found), O_RDONLY | O_NONBLOCK)), file);
}

std::string read_model_text(const fs::path& folder, const fs::path& name, size_t most) {
  const auto file = open_model_file(folder, name);
  const auto bytes = file->bytes();
  if (bytes.size() > most)
    throw FormatError(text(file->path(), " has ", bytes.size(), " bytes; expected at most ", most));
  std::string out(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto at = first_not_utf8(out)) throw FormatError(text(file->path(), " is not UTF-8 at byte ", *at));
  return out;
}

Json read_model_json(const fs::path& folder, const fs::path& name) {
  return parse_model_json(read_model_text(folder, name), folder / name);
}

Json parse_model_json(std::string_view words, const fs::path& file) {
  Json out;
  try {
    out = parse_json(words);
  } catch (const Error& fault) {
    throw FormatError(text(file, ": ", fault.what()));
  }
  if (!out.is_object()) throw FormatError(text(file, " must be a JSON object, found ", out.type_name()));
  return out;
}

}  // namespace shade::io
