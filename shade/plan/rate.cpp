#include "shade/plan/rate.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::plan {

Seconds Rate::time(double amount) const {
  if (amount <= 0) return start;
  if (points.empty()) return start + Seconds(amount / per_second);
  if (amount <= points.front().amount) return points.front().time;
  const auto above = std::find_if(points.begin(), points.end(), [&](const auto& at) { return at.amount >= amount; });
  if (above == points.end()) return points.back().time * (amount / points.back().amount);
  const auto below = std::prev(above);
  const double share = std::log(amount / below->amount) / std::log(above->amount / below->amount);
  return below->time * std::pow(above->time / below->time, share);
}

Json Rate::json() const {
  Json out{{"start_us", start.count() * 1e6}, {"per_second", per_second}};
  for (const auto& point : points) out["points"].push_back({point.amount, point.time.count()});
  return out;
}

Rate Rate::from(const Json& json, const std::string& key) {
  SHADE_REQUIRE(json.is_object(), "'", key, "' is ", json.type_name(),
                "; expected an object with start_us, per_second and, if measured, points");
  Rate out;
  const auto number = [&](const Json& value, const std::string& name) {
    SHADE_REQUIRE(value.is_number() && value.get<double>() >= 0, "'", name, "' is ", value.dump(),
                  "; expected a number, 0 or more");
    return value.get<double>();
  };
  for (const auto& [name, value] : json.items()) {
    if (name == "start_us") {
      out.start = Seconds(number(value, key + ".start_us") / 1e6);
    } else if (name == "per_second") {
      out.per_second = number(value, key + ".per_second");
    } else if (name == "points") {
      SHADE_REQUIRE(value.is_array(), "'", key, ".points' is ", value.type_name(),
                    "; expected [[amount, seconds], ...]");
      for (const auto& pair : value) {
        SHADE_REQUIRE(pair.is_array() && pair.size() == 2, "'", key, ".points' has ", pair.dump(),
                      "; expected [amount, seconds]");
        const RatePoint point{number(pair[0], key + ".points"), Seconds(number(pair[1], key + ".points"))};
        SHADE_REQUIRE(point.amount > (out.points.empty() ? 0 : out.points.back().amount) && point.time.count() > 0, "'",
                      key, ".points' has ", pair.dump(), "; expected ascending amounts and times above 0");
        out.points.push_back(point);
      }
    } else {
      throw UsageError(text("'", key, ".", name, "' is unknown; expected start_us, per_second or points"));
    }
  }
  return out;
}

Rate fitted(std::vector<RatePoint> points) {
  SHADE_REQUIRE(points.size() >= 2, "a start and a rate need two measured points or more; found ", points.size());
  std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.amount < b.amount; });
  // Minimises the sum of ((start + slope * amount) / time - 1)^2: normal equations of two unknowns.
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (const auto& point : points) {
    const double a = 1 / point.time.count(), b = point.amount / point.time.count();
    aa += a * a, ab += a * b, bb += b * b, a1 += a, b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  double start = determinant > 0 ? (a1 * bb - b1 * ab) / determinant : 0;
  double slope = determinant > 0 ? (b1 * aa - a1 * ab) / determinant : b1 / bb;
  if (start < 0) start = 0, slope = b1 / bb;  // the best one through the origin
  if (slope <= 0) slope = points.back().time.count() / points.back().amount;
  return {.start = Seconds(start), .per_second = 1 / slope, .points = std::move(points)};
}

}  // namespace shade::plan
