#include "shade/report/bars.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/units.h"
#include "shade/report/axes.h"
#include "shade/report/canvas.h"

namespace shade::report {
namespace {

constexpr double kRow = 20, kThick = 13, kHeading = 24, kGap = 8, kMostLabel = 330, kRight = 24;

// Bars are as long as the number that is written at their end, so that equal bars have equal words and others don't.
void draw_as_written(Bar& bar) {
  const double exact = bar.end(), written = std::stod(significant(exact));
  if (exact == 0 || !std::isfinite(written)) return;
  for (auto& part : bar.parts) part.value *= written / exact;
}

double start_of(const Bar& bar) { return bar.whisker ? std::min(bar.whisker->first, bar.end()) : bar.end(); }
// Words stand behind bar and whisker.
double reach_of(const Bar& bar) { return std::max({0.0, bar.end(), bar.whisker ? bar.whisker->second : 0}); }

// The axis, long enough for the words behind the bars.
void set_range(Panel& panel, const std::vector<Bar>& bars) {
  double low = 0, high = 0;
  for (const auto& bar : bars) low = std::min(low, start_of(bar)), high = std::max(high, reach_of(bar));
  if (low < 0) low *= 1.05;
  const double wide = panel.right - panel.left;
  double most = high;
  for (const auto& bar : bars) {
    const double words = text_width(bar.words, kTextPx) + kGap + 4;
    most = std::max(most, low + (reach_of(bar) - low) * wide / std::max(wide - words, wide / 4));
  }
  panel.x0 = low;
  panel.x1 = most > low ? most : low + 1;
}

double colour_number(const std::string& colour) { return std::stoi(colour.substr(1), nullptr, 16); }

}  // namespace

double Bar::end() const {
  double sum = 0;
  for (const auto& part : parts) sum += part.value;
  return sum;
}

void add_bars(Canvas& canvas, const std::string& title, const std::string& x_label, std::vector<Bar> bars) {
  for (auto& bar : bars) draw_as_written(bar);
  if (!title.empty()) canvas.line(title, 13);
  double labels = 40;
  for (const auto& bar : bars)
    labels = std::max({labels, text_width(bar.label, kTextPx), text_width(bar.heading, kTextPx)});
  labels = std::min(labels, kMostLabel);
  Panel panel{.left = 16 + labels + kGap, .top = canvas.y(), .right = canvas.width() - kRight};
  set_range(panel, bars);
  std::vector<std::vector<double>> boxes, whiskers;
  double y = panel.top + 4;
  for (const auto& bar : bars) {
    if (!bar.heading.empty()) {
      y += y > panel.top + 4 ? 6 : 0;
      canvas.text(16, y + kHeading / 2, fitted(bar.heading, kTextPx, labels), Anchor::left, kTextPx, "#000000");
      y += kHeading;
    }
    const double middle = y + kRow / 2;
    canvas.text(16 + labels, middle, fitted(bar.label, kTextPx, labels), Anchor::right);
    double x = 0;
    for (const auto& [value, colour] : bar.parts) {
      boxes.push_back({x, middle, std::min(x, x + value), std::max(x, x + value), middle - kThick / 2,
                       middle + kThick / 2, colour_number(colour)});
      x += value;
    }
    if (bar.whisker && bar.whisker->second > bar.whisker->first)
      whiskers.push_back({bar.whisker->first, middle, bar.whisker->second - bar.whisker->first, 0});
    canvas.text(panel.x(reach_of(bar)) + kGap, middle, bar.words, Anchor::left, kTextPx, bar.words_colour);
    y += kRow;
  }
  panel.bottom = y + 4;
  panel.y0 = panel.bottom;  // pixels, downwards
  panel.y1 = panel.top;
  if (boxes.empty()) boxes.push_back({0, y, 0, 0, y, y, 0});
  panel.script = text("unset ytics\nset grid xtics\nset border 3\n", tics('x', round_steps(panel.x0, panel.x1)),
                      block("boxes", boxes), block("whiskers", whiskers),
                      "plot $boxes using 1:2:3:4:5:6:7 with boxxyerror lc rgb variable fs solid noborder",
                      whiskers.empty() ? ""
                                       : ", $whiskers using 1:2:3:4 with vectors heads size screen 0.003,90 lw 1.4 lc "
                                         "rgb '#202020'",
                      "\n");
  canvas.panel(panel);
  canvas.x_label(panel, x_label);
}

}  // namespace shade::report
