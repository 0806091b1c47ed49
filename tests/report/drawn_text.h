// The text of a picture as gnuplot places it: its script drawn once more as SVG, which keeps letters, places and sizes.
#pragma once

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "tests/io/scratch.h"

namespace shade::test {

// Advances of DejaVu Sans from ' ' to '~', in thousandths of its size.
inline constexpr std::array kAdvances{318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
                                      636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
                                      1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
                                      603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
                                      500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
                                      635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};

inline double drawn_width(const std::string& words, double px) {
  double sum = 0;
  for (const char c : words) sum += c >= ' ' && c <= '~' ? kAdvances[static_cast<size_t>(c - ' ')] : 0;
  return sum * px / 1000;
}

struct DrawnText {
  std::string words;
  double px = 0, x0 = 0, y0 = 0, x1 = 0, y1 = 0;

  bool meets(const DrawnText& other) const { return x0 < other.x1 && other.x0 < x1 && y0 < other.y1 && other.y0 < y1; }
};

struct DrawnPicture {
  double width = 0, height = 0;
  std::vector<DrawnText> texts;
};

// `script`: scripts/NAME.gp of a report.
inline DrawnPicture draw_again(const std::filesystem::path& script) {
  const auto source = io::content(script);
  std::smatch size;
  DrawnPicture out;
  if (!std::regex_search(source, size, std::regex("size ([0-9]+),([0-9]+)"))) return out;
  out.width = std::stod(size[1]);
  out.height = std::stod(size[2]);
  const auto svg = script.string() + ".svg", again = script.string() + ".again";
  const auto rest = source.find('\n', source.find("\nset output") + 1);
  // A point of the PNG terminal is 4/3 pixels, one of the SVG terminal is one.
  std::ofstream(again) << "set terminal svg size " << size[1] << "," << size[2]
                       << " noenhanced font 'DejaVu Sans,12' fontscale 1.33333\nset output '" << svg << "'\n"
                       << source.substr(rest + 1);
  if (std::system(("gnuplot -d '" + again + "' > /dev/null 2>&1").c_str()) != 0) return out;
  const std::regex piece(
      "translate\\(([-0-9.]+),([-0-9.]+)\\)[^>]*font-size=\"([0-9.]+)\"[^>]*text-anchor=\"([a-z]+)\">\\s*<text>([^<]*)<"
      "/text>");
  const auto content = io::content(svg);
  for (std::sregex_iterator at(content.begin(), content.end(), piece), end; at != end; ++at) {
    const double x = std::stod((*at)[1]), y = std::stod((*at)[2]), px = std::stod((*at)[3]);
    const auto words = std::regex_replace((*at)[5].str(), std::regex("&[a-z]+;"), "&");
    const double wide = drawn_width(words, px);
    const double left = (*at)[4] == "start" ? x : (*at)[4] == "end" ? x - wide : x - wide / 2;
    if (words.find_first_not_of(' ') != std::string::npos)
      out.texts.push_back({words, px, left, y - 0.74 * px, left + wide, y + 0.2 * px});
  }
  return out;
}

}  // namespace shade::test
