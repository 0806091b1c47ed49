// Pictures are drawn by gnuplot, from scripts that hold their data: they can be kept, edited and drawn again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shade/base/files.h"

namespace shade::report {

struct Picture {
  std::string name;    // memory_comparison: of its PNG and its script
  std::string script;  // all but terminal and output
  int width = 1000, height = 600;
};

std::optional<std::filesystem::path> find_gnuplot();  // in PATH

// Writes folder/NAME.png and folder/scripts/NAME.gp. Empty, or what gnuplot complained about. For `owner` links are
// refused (Error).
std::string draw(const Picture& picture, const std::filesystem::path& folder, Readers readers = Readers::by_umask);

// The only way of text into a script: a string constant in which nothing is a command, a macro, a quote or the end of a
// line, whatever `words` hold. Control characters are shown as \xNN, and more than 160 bytes end in "...".
std::string quoted_for_gnuplot(std::string_view words);
// Two lines, one above the other; without the first if that is empty.
std::string quoted_for_gnuplot(std::string_view upper, std::string_view lower);
// The name of a tic, which gnuplot takes as a format for its number.
std::string tic_for_gnuplot(const std::string& quoted, double at);

}  // namespace shade::report
