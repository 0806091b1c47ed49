#include "shade/report/text_width.h"

#include <array>

#include "shade/base/strings.h"
#include "shade/base/visible_text.h"

namespace shade::report {
namespace {

constexpr size_t kMostBytes = 160;  // of a line: no picture is wider

// Advances of DejaVu Sans from ' ' to '~', in thousandths of its size.
constexpr std::array kAdvances{318,  401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337,
                               636,  636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531,
                               1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787,
                               603,  787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500,
                               500,  613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612,
                               635,  635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838};

// In units of the font's size. The bytes of one letter beyond ASCII share its width: it is square at most.
double width_of(char c) {
  constexpr double kRounding = 1.06;  // letters begin at whole pixels
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80) return (byte & 0xC0) == 0x80 ? 0 : 1.1;
  return byte < ' ' || byte > '~' ? 1.1 : kRounding * kAdvances[byte - static_cast<unsigned char>(' ')] / 1000;
}

}  // namespace

double text_width(std::string_view words, double font_px) {
  double sum = 0;
  for (const char c : words) sum += width_of(c);
  return sum * font_px;
}

std::string fitted(std::string_view words, double font_px, double width_px) {
  constexpr std::string_view kRest = "...";
  auto shown = visible(words, kMostBytes);
  if (text_width(shown, font_px) <= width_px) return shown;
  const double left = width_px - text_width(kRest, font_px);
  double sum = 0;
  size_t end = 0;
  while (end < shown.size() && (sum += width_of(shown[end]) * font_px) <= left) ++end;
  while (end > 0 && end < shown.size() && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
  return shown.substr(0, end).append(kRest);
}

std::vector<std::string> wrapped(std::string_view words, double font_px, double width_px, size_t most) {
  std::vector<std::string> out;
  std::string line;
  for (const auto& word : split(visible(words, most * kMostBytes), ' ')) {
    auto longer = line.empty() ? word : line + " " + word;
    const bool last = out.size() + 1 == most;
    const bool fits = longer.size() <= kMostBytes && text_width(longer, font_px) <= width_px;
    if (!fits && !last && !line.empty()) {
      out.push_back(fitted(line, font_px, width_px));
      longer = word;
    }
    line = std::move(longer);
  }
  out.push_back(fitted(line, font_px, width_px));
  return out;
}

}  // namespace shade::report
