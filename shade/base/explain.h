// Errors of the system and of libraries in Shade's words: what was used, why that failed, and what to do.
#pragma once

#include <exception>
#include <string>

namespace shade {

// The reason of a system call that failed with `fault` (errno), with the remedy where one is known: a full disk, a
// limit of the shell (ulimit).
std::string reason_of(int fault);

// For a process or thread that can't be started. Names the limit of processes if that is the cause.
std::string cannot_start(const std::string& what, int fault);

// Of std::filesystem, std::thread and the JSON library. All other errors are returned as they say it themselves.
std::string explain(const std::exception& fault);

}  // namespace shade
