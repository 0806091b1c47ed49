// Files that hold data from records: only their owner can read them, independent of the umask.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>

namespace shade {

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

}  // namespace shade
