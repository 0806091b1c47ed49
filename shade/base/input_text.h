// Text files that the user names: recipes, prompts, JSON.
#pragma once

#include <filesystem>
#include <string>

#include "shade/base/units.h"

namespace shade {

// Throws UsageError naming the file: a folder, a device, a socket or a named pipe, whose reader could wait for ever.
// An open descriptor (/dev/stdin, /dev/fd/N as a shell's <(command) makes it) may be a pipe. A file that doesn't exist
// is not refused here.
void require_readable(const std::filesystem::path& file);

// The whole content. Throws Error naming the file: it can't be read, or is larger than `most`.
std::string read_text(const std::filesystem::path& file, Bytes most);

}  // namespace shade
