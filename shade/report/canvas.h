// A picture laid out in pixels, from the top: text, boxes and panels are at known places, so that none covers another.
// gnuplot draws the panels' curves and axes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shade/report/gnuplot.h"

namespace shade::report {

inline constexpr double kTextPx = 12, kTitlePx = 16;
std::string font(double px);  // gnuplot's words for it

enum class Anchor { left, centre, right };

// Where curves are drawn.
struct Panel {
  double left = 0, top = 0, right = 0, bottom = 0;
  double x0 = 0, x1 = 1, y0 = 0, y1 = 1;  // ranges
  std::string script;                     // what else is set, data, and `plot`

  double x(double value) const { return left + (value - x0) / (x1 - x0) * (right - left); }
  double y(double value) const { return bottom - (value - y0) / (y1 - y0) * (bottom - top); }
  double x_px() const { return (right - left) / (x1 - x0); }  // pixels of a unit
  double y_px() const { return (bottom - top) / (y1 - y0); }
};

class Canvas {
 public:
  Canvas(const std::string& title, const std::string& subtitle, int width = 1000);

  int width() const { return width_; }
  double y() const { return y_; }  // where the next thing may begin
  void skip(double px) { y_ += px; }

  // `y` is the middle of its line.
  void text(double x, double y, const std::string& words, Anchor anchor = Anchor::left, double px = kTextPx,
            const std::string& colour = "#202020");
  void box(double x0, double y0, double x1, double y1, const std::string& colour);
  // At y(), and in up to two further lines what exceeds the width.
  void line(const std::string& words, double px = kTextPx, const std::string& colour = "#202020");

  // {words, colour} in lines as wide as the picture. Without a colour the words stand alone.
  void legend(const std::vector<std::pair<std::string, std::string>>& entries);
  void panel(Panel panel);
  void x_label(const Panel& panel, const std::string& words);  // below the numbers of its axis

  Picture picture() const;

 private:
  int width_;
  double y_ = 12;
  std::vector<Panel> panels_;
  struct Text {
    double x, y;
    std::string words;
    Anchor anchor;
    double px;
    std::string colour;
  };
  struct Box {
    double x0, y0, x1, y1;
    std::string colour;
  };
  std::vector<Text> texts_;
  std::vector<Box> boxes_;
};

// Round numbers between the two, at most `most` + 1, and gnuplot's words for them; `axis` is x or y.
std::vector<double> round_steps(double low, double high, int most = 6);
std::string tics(char axis, const std::vector<double>& values);
// Of tic_for_gnuplot(): all tics of an axis.
std::string tics_of(char axis, const std::vector<std::string>& tics);

// Of a panel over the logarithm of sizes that double. A number that would touch the one before has a mark only.
std::string log2_tics(const Panel& panel, const std::vector<int64_t>& sizes);

// How wide text is when drawn, without a font at hand: never less than DejaVu Sans, which pictures ask for, so that
// what is laid out by it doesn't overlap.
double text_width(std::string_view words, double font_px);
// As much of it as fits, with "..." for the rest. Control characters are shown as they will be drawn.
std::string fitted(std::string_view words, double font_px, double width_px);
// Lines that fit, broken at spaces; the last of at most `most` ends in "..." if there is more.
std::vector<std::string> wrapped(std::string_view words, double font_px, double width_px, size_t most);

}  // namespace shade::report
