// How wide text is when drawn, without a font at hand: never less than DejaVu Sans, which pictures ask for, so that
// what is laid out by it doesn't overlap.
#pragma once

#include <string>
#include <string_view>

namespace shade::report {

double text_width(std::string_view words, double font_px);
// As much of it as fits, with "..." for the rest. Control characters are shown as they will be drawn.
std::string fitted(std::string_view words, double font_px, double width_px);

}  // namespace shade::report
