#include "shade/report/canvas.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/text_width.h"

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

}  // namespace shade::report
