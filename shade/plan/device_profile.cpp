#include "shade/plan/device_profile.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"

namespace shade::plan {
namespace {

std::string type_name(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Half: return "bf16";
    case c10::ScalarType::Double: return "fp64";
    default: return "fp32";
  }
}

// One list of keys for reading and writing. `Visitor` has a call for each kind of value.
template <class Profile, class Visitor>
void visit(Profile& p, Visitor& v) {
  v("name", p.name);
  v("device", p.device);
  v("source", p.source);
  v("memory_bytes", p.memory.count);
  v("process_bytes", p.process.count);
  v("process_bf16_bytes", p.process_bf16.count);
  v("bf16_spec", p.bf16_spec);
  v("tf32_spec", p.tf32_spec);
  v("fp32_spec", p.fp32_spec);
  v("memory_spec", p.memory_spec);
  v("products", p.products);
  v("widths", p.widths);
  v("attention", p.attention);
  v("elementwise", p.elementwise);
  v("copies", p.copies);
  v("noise", p.noise);
  v("operators", p.operators);
  v("asynchronous", p.asynchronous);
  v("launch_us", p.launch);
  v("contention", p.contention);
  v("inside", p.inside);
  v("network", p.network);
  v("ranks_per_node", p.ranks_per_node);
  v("collective_start_us", p.collective_start);
  v("collectives", p.collectives);
}

class Writer {
 public:
  Json out;

  template <class Plain>
  void operator()(const char* key, const Plain& value) {
    out[key] = value;
  }
  void operator()(const char* key, const Seconds& value) { out[key] = value.count() * 1e6; }
  void operator()(const char* key, const Rate& value) { out[key] = value.json(); }
  void operator()(const char* key, const std::map<std::string, Rate>& value) {
    out[key] = Json::object();
    for (const auto& [name, rate] : value) out[key][name] = rate.json();
  }
  void operator()(const char* key, const LinkProfile& value) {
    out[key] = {{"latency_us", value.latency.count() * 1e6}, {"spec", value.spec}, {"reachable", value.reachable}};
  }
  void operator()(const char* key, const std::vector<WidthShare>& value) {
    out[key] = Json::array();
    for (const auto& at : value) out[key].push_back({at.width, at.share});
  }
  void operator()(const char* key, const std::vector<CollectiveRate>& value) {
    out[key] = Json::array();
    for (const auto& of : value)
      out[key].push_back(
          {{"collective", to_string(of.kind)}, {"ranks", of.ranks}, {"nodes", of.nodes}, {"rate", of.rate.json()}});
  }
};

class Reader {
 public:
  explicit Reader(const Json& json, std::string where = "") : json_(json), where_(std::move(where)) {
    SHADE_REQUIRE(json.is_object(), where_.empty() ? "a device profile" : "'" + where_ + "'", " is ", json.type_name(),
                  "; expected an object");
  }

  void operator()(const char* key, std::string& value) {
    if (const auto* found = find(key)) {
      require(found->is_string(), key, "a string");
      value = found->get<std::string>();
    }
  }
  void operator()(const char* key, bool& value) {
    if (const auto* found = find(key)) {
      require(found->is_boolean(), key, "true or false");
      value = found->get<bool>();
    }
  }
  void operator()(const char* key, double& value) {
    if (const auto* found = find(key)) {
      require(found->is_number() && found->get<double>() >= 0, key, "a number, 0 or more");
      value = found->get<double>();
    }
  }
  void operator()(const char* key, int64_t& value) {
    if (const auto* found = find(key)) {
      require(found->is_number_integer() && found->get<int64_t>() >= 0, key, "a whole number, 0 or more");
      value = found->get<int64_t>();
    }
  }
  void operator()(const char* key, int& value) {
    int64_t wide = value;
    (*this)(key, wide);
    require(wide >= 1 && wide <= 1 << 20, key, "a number of ranks or nodes, 1 or more");
    value = static_cast<int>(wide);
  }
  void operator()(const char* key, Seconds& value) {
    double microseconds = value.count() * 1e6;
    (*this)(key, microseconds);
    value = Seconds(microseconds / 1e6);
  }
  void operator()(const char* key, Rate& value) {
    if (const auto* found = find(key)) value = Rate::from(*found, path(key));
  }
  void operator()(const char* key, std::map<std::string, Rate>& value) {
    const auto* found = find(key);
    if (found == nullptr) return;
    require(found->is_object(), key, "an object of rates");
    for (const auto& [name, rate] : found->items()) value[name] = Rate::from(rate, path(key) + "." + name);
  }
  void operator()(const char* key, LinkProfile& value) {
    const auto* found = find(key);
    if (found == nullptr) return;
    Reader inner(*found, path(key));
    inner("latency_us", value.latency);
    inner("spec", value.spec);
    inner("reachable", value.reachable);
    inner.finish();
  }
  void operator()(const char* key, std::vector<WidthShare>& value) {
    const auto* found = find(key);
    if (found == nullptr) return;
    require(found->is_array(), key, "[[width, share], ...]");
    for (const auto& pair : *found) {
      require(pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number() &&
                  pair[0].get<double>() > (value.empty() ? 0 : value.back().width) && pair[1].get<double>() > 0,
              key, "[[width, share], ...] with ascending widths and shares above 0");
      value.push_back({pair[0].get<double>(), pair[1].get<double>()});
    }
  }
  void operator()(const char* key, std::vector<CollectiveRate>& value) {
    const auto* found = find(key);
    if (found == nullptr) return;
    require(found->is_array(), key, "a list of measured collectives");
    for (const auto& json : *found) {
      Reader inner(json, path(key));
      std::string kind = "all_reduce";
      CollectiveRate of;
      inner("collective", kind);
      inner("ranks", of.ranks);
      inner("nodes", of.nodes);
      inner("rate", of.rate);
      inner.finish();
      of.kind = parse_name<comm::Collective>(kind);
      SHADE_REQUIRE(of.ranks >= 2 && of.rate.known(), "'", path(key), "' has ", json.dump(),
                    "; expected 2 ranks or more and a rate");
      value.push_back(std::move(of));
    }
  }

  void finish() const {
    for (const auto& [key, value] : json_.items())
      SHADE_REQUIRE(std::find(known_.begin(), known_.end(), key) != known_.end(), "'", path(key),
                    "' is unknown in a device profile; expected one of ", join(known_, ", "), suggestion(key, known_));
  }

 private:
  std::string path(const std::string& key) const { return where_.empty() ? key : where_ + "." + key; }
  const Json* find(const char* key) {
    known_.emplace_back(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  void require(bool right, const char* key, const char* expected) const {
    SHADE_REQUIRE(right, "'", path(key), "' is ", json_.contains(key) ? json_[key].dump() : "missing", "; expected ",
                  expected);
  }

  const Json& json_;
  std::string where_;
  std::vector<std::string> known_;
};

}  // namespace

const Rate& DeviceProfile::product_rate(c10::ScalarType type) const {
  const auto found = products.find(type_name(type));
  SHADE_REQUIRE(found != products.end() && found->second.known(), "device profile '", name, "' has no rate for ",
                type_name(type), " products; add products.", type_name(type),
                ".per_second to a profile file (shade calibrate writes one)");
  return found->second;
}

double DeviceProfile::width_share(double width) const {
  if (widths.empty() || width <= 0) return 1;
  if (width <= widths.front().width) return widths.front().share * width / widths.front().width;
  if (width >= widths.back().width) return widths.back().share;
  const auto above = std::find_if(widths.begin(), widths.end(), [&](const auto& at) { return at.width >= width; });
  const auto below = std::prev(above);
  const double along = std::log(width / below->width) / std::log(above->width / below->width);
  return below->share * std::pow(above->share / below->share, along);
}

Json DeviceProfile::json() const {
  Writer writer;
  visit(*this, writer);
  return std::move(writer.out);
}

DeviceProfile DeviceProfile::from(const Json& json) {
  DeviceProfile out;
  Reader reader(json);
  visit(out, reader);
  reader.finish();
  SHADE_REQUIRE(out.elementwise.known(),
                "the device profile has no rate 'elementwise'; expected bytes per second of "
                "element-wise passes: {\"per_second\": ...}");
  SHADE_REQUIRE(!out.products.empty(),
                "the device profile has no rate in 'products'; expected at least one of bf16, "
                "tf32, fp32, fp64");
  SHADE_REQUIRE(out.contention < 1, "'contention' is ", out.contention, "; expected a share below 1");
  return out;
}

DeviceProfile device_profile(const std::string& name_or_file) {
  std::vector<std::string> names;
  for (const auto& profile : known_profiles()) {
    if (profile.name == name_or_file) return profile;
    names.push_back(profile.name);
  }
  std::error_code absent;
  SHADE_REQUIRE(std::filesystem::is_regular_file(name_or_file, absent), "device profile '", name_or_file,
                "' is neither a known name nor a file; expected one of ", join(names, ", "),
                ", or a JSON file as shade calibrate writes it", suggestion(name_or_file, names));
  try {
    auto out = DeviceProfile::from(read_json(name_or_file));
    if (out.name.empty()) out.name = std::filesystem::path(name_or_file).stem().string();
    return out;
  } catch (const UsageError& fault) {
    throw UsageError(text(name_or_file, ": ", fault.what()));
  }
}

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
