// Files that are written: whole or not at all, for their owner alone, under names that a user gave.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shade {

// A file that appears whole or not at all: written under a temporary name beside its own, flushed to the disk, renamed.
// Until commit() a reader sees what was there before. Without commit() the temporary file is removed. One thread at a
// time, except that write_at() may be called by several for different ranges.
class NewFile {
 public:
  // Throws Error naming the file, as all members do; the folder must exist. The file has this mode, whatever the umask,
  // and never more; empty: 0666 less the umask. A link or a device of that name is replaced: files of a user's own
  // naming go through write_output().
  explicit NewFile(std::filesystem::path path, std::optional<mode_t> mode = std::nullopt);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write_at(uint64_t offset, std::span<const std::byte> bytes);

  // fsync, rename, fsync of the folder: after it returns, the file survives a power cut.
  void commit();

 private:
  [[noreturn]] void fail(const char* step, int fault) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;  // -1: committed
};

// Files that hold data from records: only their owner can read them, independent of the umask.

// Who may read a written file: as the umask says, or the owner alone (files 0600, folders 0700).
enum class Readers { by_umask, owner };

// For NewFile; empty: by the umask.
inline std::optional<mode_t> file_mode(Readers readers) {
  return readers == Readers::owner ? std::optional<mode_t>(0600) : std::nullopt;
}

// Makes the folder and its missing parents (those by the umask). For `owner` one that is there is closed to others, if
// it is this user's and no link. Throws Error naming it.
void make_folder(const std::filesystem::path& folder, Readers readers);

// For `owner`, before a file is opened by its name: makes it, empty, or closes one that is there to others. Links and
// devices are refused. Throws Error naming it.
void make_file(const std::filesystem::path& file, Readers readers);

// Takes the rights of group and others away, if the file or folder is there and this user's. Not of what a link names.
void close_to_others(const std::filesystem::path& path);

bool open_to_others(const std::filesystem::path& path);    // group or others have rights
bool belongs_to_other(const std::filesystem::path& path);  // user

// Files that the user names, as those of --json, or finds in a folder of results.
//
//   there is                            what is done
//   nothing, or a regular file          written beside it and renamed: a reader sees the old file or the new one. The
//                                       new one has the mode of the one it replaces, else that of the umask. Missing
//                                       folders are made when it is written, by the umask
//   a symbolic link to one              followed; the link stays
//   a device, a FIFO                    written to, never replaced
//   /dev/stdout, /dev/stderr, /dev/fd/N the open descriptor is written to, whatever it is
//   a folder; a link to nothing or to   an error, also where the file's folder can't be made
//   itself

// Whether `file` can be written by these rules, without touching it. Throws UsageError: before an hour's work is better
// than after it.
void check_output(const std::filesystem::path& file);

// Two outputs in one file: the second would replace the first. Throws UsageError naming both options.
void require_different(const std::string& option, const std::string& file, const std::string& other,
                       const std::string& other_file);

// For writers that take a name and replace what has it: the file itself, links resolved, in a folder that is there.
// Devices are refused as well.
std::filesystem::path regular_output(const std::filesystem::path& file);

// Throws UsageError as check_output() does, Error if the system refuses a write. For `owner` a regular file gets mode
// 0600, also where one that others may read is replaced.
void write_output(const std::filesystem::path& file, std::string_view content, Readers readers = Readers::by_umask);

}  // namespace shade
