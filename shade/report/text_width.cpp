#include "shade/report/text_width.h"

#include "shade/base/visible_text.h"

namespace shade::report {
namespace {

// In units of the font's size. The bytes of one letter beyond ASCII share its width: it is square at most.
double width_of(char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (byte >= 0x80) return (byte & 0xC0) == 0x80 ? 0 : 1.1;
  constexpr std::string_view kNarrow = "fijlrtI.,:;'|!()[] /-", kWide = "mwMWDGHNOQU@%&+=<>~^#";
  if (kWide.find(c) != std::string_view::npos) return 1.01;
  return kNarrow.find(c) != std::string_view::npos ? 0.42 : 0.71;
}

}  // namespace

double text_width(std::string_view words, double font_px) {
  double sum = 0;
  for (const char c : words) sum += width_of(c);
  return sum * font_px;
}

std::string fitted(std::string_view words, double font_px, double width_px) {
  constexpr std::string_view kRest = "...";
  constexpr size_t kMost = 160;  // bytes: no picture is wider
  auto shown = visible(words, kMost);
  if (text_width(shown, font_px) <= width_px) return shown;
  const double left = width_px - text_width(kRest, font_px);
  double sum = 0;
  size_t end = 0;
  while (end < shown.size() && (sum += width_of(shown[end]) * font_px) <= left) ++end;
  while (end > 0 && end < shown.size() && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
  return shown.substr(0, end).append(kRest);
}

}  // namespace shade::report
