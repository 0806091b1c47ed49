// Pictures are drawn by gnuplot, from scripts that hold their data: they can be kept, edited and drawn again.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace shade::experiment {

struct Picture {
  std::string name;    // memory_comparison: of its PNG and its script
  std::string script;  // all but terminal and output
  int width = 1000, height = 600;
};

std::optional<std::filesystem::path> find_gnuplot();  // in PATH

// Writes folder/NAME.png and folder/scripts/NAME.gp. Empty, or what gnuplot complained about.
std::string draw(const Picture& picture, const std::filesystem::path& folder);

std::string quoted_for_gnuplot(const std::string& words);

}  // namespace shade::experiment
