#include "shade/report/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"

namespace shade::report {
namespace {

constexpr double kMargin = 16, kLine = 19, kSwatch = 11;
constexpr double kPointPx = 4.0 / 3;  // of the pngcairo terminal: 96 points in 72 of an inch

const char* word_for(Anchor anchor) {
  return anchor == Anchor::left ? "left" : anchor == Anchor::right ? "right" : "center";
}

}  // namespace

std::string font(double px) { return shade::text("font ',", px / kPointPx, "'"); }

Canvas::Canvas(const std::string& title, const std::string& subtitle, int width) : width_(width) {
  line(title, kTitlePx);
  if (!subtitle.empty()) line(subtitle, kTextPx, "#606060");
  skip(4);
}

void Canvas::text(double x, double y, const std::string& words, Anchor anchor, double px, const std::string& colour) {
  if (!words.empty()) texts_.push_back({x, y, words, anchor, px, colour});
}

void Canvas::box(double x0, double y0, double x1, double y1, const std::string& colour) {
  boxes_.push_back({x0, y0, x1, y1, colour});
}

void Canvas::line(const std::string& words, double px, const std::string& colour) {
  constexpr size_t kMostLines = 3;
  for (const auto& part : wrapped(words, px, width_ - 2 * kMargin, kMostLines)) {
    text(kMargin, y_ + px / 2 + 2, part, Anchor::left, px, colour);
    y_ += px + 5;
  }
  y_ += 2;
}

void Canvas::legend(const std::vector<std::pair<std::string, std::string>>& entries) {
  double x = kMargin;
  const double most = (width_ - 2 * kMargin) / 2.0;
  for (const auto& [words, colour] : entries) {
    const double swatch = colour.empty() ? 0 : kSwatch + 6;
    const auto shown = fitted(words, kTextPx, most - swatch);
    const double wide = swatch + text_width(shown, kTextPx) + 14;
    if (x > kMargin && x + wide > width_ - kMargin) x = kMargin, y_ += kLine;
    const double middle = y_ + kLine / 2;
    if (!colour.empty()) box(x, middle - kSwatch / 2, x + kSwatch, middle + kSwatch / 2, colour);
    text(x + swatch, middle, shown, Anchor::left, kTextPx, "#404040");
    x += wide;
  }
  if (!entries.empty()) y_ += kLine + 4;
}

void Canvas::panel(Panel panel) {
  y_ = std::max(y_, panel.bottom);
  panels_.push_back(std::move(panel));
}

void Canvas::x_label(const Panel& panel, const std::string& words) {
  text((panel.left + panel.right) / 2, panel.bottom + 45, words, Anchor::centre, kTextPx, "#404040");
  y_ = panel.bottom + 62;
}

Picture Canvas::picture() const {
  if (panels_.empty()) return {};
  const int height = static_cast<int>(std::ceil(y_ + kMargin));
  const auto across = [&](double px) { return px / width_; };
  const auto up = [&](double px) { return 1 - px / height; };
  std::string script = "unset key\n";
  for (const auto& [x, y, words, anchor, px, colour] : texts_)
    script += shade::text("set label ", quoted_for_gnuplot(words), " at screen ", across(x), ",", up(y), " ",
                          word_for(anchor), " ", font(px), " tc rgb '", colour, "' front\n");
  for (const auto& [x0, y0, x1, y1, colour] : boxes_)
    script += shade::text("set object rectangle from screen ", across(x0), ",", up(y0), " to screen ", across(x1), ",",
                          up(y1), " fc rgb '", colour, "' fs solid noborder\n");
  script += "set multiplot\n";
  for (size_t i = 0; i < panels_.size(); ++i) {
    const auto& p = panels_[i];
    script += shade::text(i == 1 ? "unset label\nunset object\n" : "", "set lmargin at screen ", across(p.left),
                          "\nset rmargin at screen ", across(p.right), "\nset tmargin at screen ", up(p.top),
                          "\nset bmargin at screen ", up(p.bottom), "\nset xrange [", p.x0, ":", p.x1,
                          "]\nset yrange [", p.y0, ":", p.y1, "]\n", p.script);
  }
  return {.script = script + "unset multiplot\n", .width = width_, .height = height};
}

std::vector<double> round_steps(double low, double high, int most) {
  const double least = (high - low) / most;
  if (!(least > 1e-300) || !std::isfinite(least)) return {low};
  const double power = std::pow(10, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double part : {5, 2, 1})
    if (part * power >= least) step = part * power;
  std::vector<double> out;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) out.push_back(k * step);
  return out;
}

std::string tics(char axis, const std::vector<double>& values) {
  std::vector<std::string> out;
  for (const double value : values)
    out.push_back(tic_for_gnuplot(quoted_for_gnuplot(std::abs(value) < 1e-300 ? "0" : shade::text(value)), value));
  return tics_of(axis, out);
}

std::string tics_of(char axis, const std::vector<std::string>& tics) {
  return shade::text("set ", axis, "tics nomirror out scale 0.6 ", font(kTextPx), " (", join(tics, ", "), ")\n");
}

std::string log2_tics(const Panel& panel, const std::vector<int64_t>& sizes) {
  std::vector<std::string> out;
  double end = -1e9;
  for (const auto size : sizes) {
    const auto at = std::log2(static_cast<double>(size));
    const double half = text_width(std::to_string(size), kTextPx) / 2;
    const bool fits = panel.x(at) - half > end + 4;
    out.push_back(tic_for_gnuplot(quoted_for_gnuplot(fits ? std::to_string(size) : ""), at));
    if (fits) end = panel.x(at) + half;
  }
  return tics_of('x', out);
}

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
