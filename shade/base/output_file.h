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
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "shade/base/private_file.h"

namespace shade {

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
