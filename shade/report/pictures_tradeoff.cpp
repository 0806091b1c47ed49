// Every row as a point: memory against time, or against throughput. Points have the colour of their series and the
// number of their shape, as far as there is room for it.
#include <algorithm>
#include <array>
#include <functional>

#include "shade/base/error.h"
#include "shade/base/units.h"
#include "shade/report/axes.h"
#include "shade/report/canvas.h"
#include "shade/report/pictures.h"
#include "shade/report/series.h"

namespace shade::report {
namespace {

struct Point {
  double x, y, low, high;  // low and high of x
  std::string colour;
  size_t place;  // number of its shape
};

struct Box {
  double x0, y0, x1, y1;
  bool meets(const Box& other) const { return x0 < other.x1 && other.x0 < x1 && y0 < other.y1 && other.y0 < y1; }
};

// Numbers beside the points, where they cover neither each other nor a point or its whisker. One without a free place
// is left out. Returns a line {x, y, dx, dy} from the point to each number that isn't next to it.
std::vector<std::vector<double>> add_numbers(Canvas& canvas, const Panel& panel, const std::vector<Point>& points) {
  constexpr double kRadius = 7, kNear = 10;
  std::vector<std::vector<double>> out;
  std::vector<Box> taken;
  for (const auto& point : points) {
    const double x = panel.x(point.x), y = panel.y(point.y);
    taken.push_back({x - kRadius, y - kRadius, x + kRadius, y + kRadius});
    taken.push_back({panel.x(point.low), y - 2, panel.x(point.high), y + 2});
  }
  for (const auto& point : points) {
    const auto words = std::to_string(point.place + 1);
    const double wide = text_width(words, kTextPx) + 2, high = kTextPx + 2;
    bool placed = false;
    for (const double away : {kNear, 18.0, 27.0}) {
      for (const auto& [dx, dy] : std::array<std::pair<double, double>, 8>{
               {{1, 0}, {0, -1}, {-1, 0}, {0, 1}, {1, -1}, {-1, -1}, {1, 1}, {-1, 1}}}) {
        const double x = panel.x(point.x) + dx * (away + wide / 2), y = panel.y(point.y) + dy * (away + high / 2);
        const Box box{x - wide / 2, y - high / 2, x + wide / 2, y + high / 2};
        const bool inside = box.x0 > panel.left && box.x1 < panel.right && box.y0 > panel.top && box.y1 < panel.bottom;
        const bool free = std::none_of(taken.begin(), taken.end(), [&](const Box& other) { return box.meets(other); });
        if (placed || !inside || !free) continue;
        canvas.text(x, y, words, Anchor::centre, kTextPx, "#404040");
        taken.push_back(box);
        placed = true;
        const double share = away / (away + high / 2);  // of the way, which ends at the number
        if (away > kNear)
          out.push_back({point.x, point.y, share * (x - panel.x(point.x)) / panel.x_px(),
                         -share * (y - panel.y(point.y)) / panel.y_px()});
      }
    }
  }
  return out;
}

struct Axes {
  std::string title, x_label, y_label;
};

Picture scatter(const Results& results, const Axes& what, const std::function<Point(const ResultRow&)>& point_of) {
  const AllSeries series(results);
  std::vector<std::string> places;
  std::vector<Point> points;
  for (const auto& row : results.rows) {
    const auto words = place_of(row);
    const auto place = std::find(places.begin(), places.end(), words);
    auto point = point_of(row);
    point.place = static_cast<size_t>(place - places.begin());
    point.colour = series.of(row).colour();
    if (place == places.end()) places.push_back(words);
    points.push_back(point);
  }
  Canvas canvas(what.title, results.common);
  std::vector<std::pair<std::string, std::string>> legend;
  for (const auto& one : series.list()) legend.emplace_back(one.word, one.colour());
  canvas.legend(legend);
  canvas.line(what.y_label, kTextPx, "#404040");
  Panel panel{.left = 80, .top = canvas.y() + 6, .right = 970, .bottom = canvas.y() + 476, .x1 = 1e-9, .y1 = 1e-9};
  for (const auto& point : points)
    panel.x1 = std::max(panel.x1, 1.06 * point.high), panel.y1 = std::max(panel.y1, 1.1 * point.y);
  std::vector<std::vector<double>> dots, ranges;
  for (const auto& point : points) {
    dots.push_back({point.x, point.y, static_cast<double>(std::stoi(point.colour.substr(1), nullptr, 16))});
    ranges.push_back({point.low, point.y, point.high - point.low, 0});
  }
  std::vector<std::vector<double>> leaders;
  if (places.size() > 1) leaders = add_numbers(canvas, panel, points);
  panel.script =
      text("set grid xtics ytics\nset border 3\n", tics('x', round_steps(0, panel.x1)),
           tics('y', round_steps(0, panel.y1)), block("dots", dots), block("ranges", ranges), block("leaders", leaders),
           "plot ", leaders.empty() ? "" : "$leaders using 1:2:3:4 with vectors nohead lw 1 lc rgb '#404040', ",
           "$ranges using 1:2:3:4 with vectors heads size screen 0.003,90 lw 1.2 lc rgb '#8a8a8a', "
           "$dots using 1:2:3 with points pt 7 ps 1.6 lc rgb variable\n");
  canvas.panel(panel);
  canvas.x_label(panel, what.x_label);
  std::vector<std::pair<std::string, std::string>> numbers;
  for (size_t i = 0; i < places.size() && places.size() > 1; ++i)
    numbers.emplace_back(text(i + 1, ": ", places[i].empty() ? "all others" : places[i]), "");
  canvas.legend(numbers);
  return canvas.picture();
}

Picture memory_vs_time(const Results& results) {
  const auto unit = memory_unit(results.largest_peak_mb()), time = time_unit(results);
  return scatter(results,
                 {.title = "Memory against time: lower left is better",
                  .x_label = text("median step (", time.name, "), ", results.range_text()),
                  .y_label = text("peak memory (", unit.name, ")")},
                 [&](const ResultRow& row) {
                   return Point{.x = time.of(row.time_ms),
                                .y = unit.of(row.peak_mb),
                                .low = time.of(results.range_ms(row).first),
                                .high = time.of(results.range_ms(row).second),
                                .colour = "",
                                .place = 0};
                 });
}

Picture performance_tradeoff(const Results& results) {
  const bool known = std::all_of(results.rows.begin(), results.rows.end(),
                                 [](const auto& row) { return row.tokens_per_second > 0 && row.fastest_ms > 0; });
  if (!known) return {};
  const auto unit = memory_unit(results.largest_peak_mb());
  return scatter(results,
                 {.title = "Throughput against memory: lower right is better",
                  .x_label = text(results.throughput_unit(), ", ", results.range_text()),
                  .y_label = text("peak memory (", unit.name, ")")},
                 [&](const ResultRow& row) {
                   const double in_all = row.tokens_per_second * row.time_ms;  // of 1000 steps
                   return Point{.x = row.tokens_per_second,
                                .y = unit.of(row.peak_mb),
                                .low = in_all / results.range_ms(row).second,
                                .high = in_all / results.range_ms(row).first,
                                .colour = "",
                                .place = 0};
                 });
}

constexpr PictureRow kTradeoffPictures[] = {{"memory_vs_time_tradeoff", memory_vs_time},
                                            {"performance_tradeoff", performance_tradeoff}};

}  // namespace

std::span<const PictureRow> tradeoff_pictures() { return kTradeoffPictures; }

}  // namespace shade::report
