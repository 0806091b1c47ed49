// How wide text is when drawn, without a font at hand: never less than DejaVu Sans, which pictures ask for, so that
// what is laid out by it doesn't overlap.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shade::report {

double text_width(std::string_view words, double font_px);
// As much of it as fits, with "..." for the rest. Control characters are shown as they will be drawn.
std::string fitted(std::string_view words, double font_px, double width_px);
// Lines that fit, broken at spaces; the last of at most `most` ends in "..." if there is more.
std::vector<std::string> wrapped(std::string_view words, double font_px, double width_px, size_t most);

}  // namespace shade::report
