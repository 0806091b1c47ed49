#include "shade/report/audits.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/report/axes.h"
#include "shade/report/palette.h"

namespace shade::report {
namespace {

const std::vector<std::string> kKinds{"step", "training", "one_run", "model"};

size_t place_of(const std::string& kind) {
  return static_cast<size_t>(std::find(kKinds.begin(), kKinds.end(), kind) - kKinds.begin());
}

std::optional<AuditRow> audit_in(const std::string& file, const Json& json) {
  try {
    AuditRow out{.file = file,
                 .kind = json.at("kind").get<std::string>(),
                 .fault = json.at("config").at("audit").at("fault").get<std::string>(),
                 .claimed = json.at("claimed_epsilon").get<double>(),
                 .found = json.at("lower_epsilon").get<double>(),
                 .canaries = json.value("canaries", int64_t{0}),
                 .verdict = json.at("verdict").get<std::string>()};
    out.trials = out.canaries > 0 ? out.canaries : json.value("trainings", json.value("runs", int64_t{0}));
    const bool numbers = std::isfinite(out.claimed) && std::isfinite(out.found) && out.canaries >= 0;
    return numbers && place_of(out.kind) < kKinds.size() ? std::optional(out) : std::nullopt;
  } catch (const Json::exception&) {  // a key is missing: it is another program's file
    return std::nullopt;
  }
}

struct Found {
  std::vector<AuditRow> audits;
  bool measured = false;  // there are results of shade bench
};

Found found_in(const std::filesystem::path& folder) {
  Found out;
  if (!std::filesystem::is_directory(folder)) return out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".json") continue;
    std::ifstream in(entry.path());
    const auto json = Json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    out.measured = out.measured || json.contains("mode");
    if (auto row = audit_in(entry.path().filename().string(), json)) out.audits.push_back(std::move(*row));
  }
  std::sort(out.audits.begin(), out.audits.end(), [](const auto& a, const auto& b) {
    return std::tuple(place_of(a.kind), a.fault != "none", a.fault, a.trials, a.file) <
           std::tuple(place_of(b.kind), b.fault != "none", b.fault, b.trials, b.file);
  });
  return out;
}

std::string digits_of(double value) { return Json(value).dump(); }

}  // namespace

bool holds_audits(const std::filesystem::path& folder) {
  const auto found = found_in(folder);
  return !found.audits.empty() && !found.measured;
}

std::vector<AuditRow> read_audits(const std::filesystem::path& folder) {
  auto out = found_in(folder).audits;
  SHADE_REQUIRE(!out.empty(), "no results of shade audit in ", folder, "; write some with shade audit ... --json ",
                folder / "NAME.json");
  return out;
}

std::string summary_of(const std::vector<AuditRow>& rows) {
  std::vector<std::string> faults;
  std::map<std::pair<std::string, std::string>, const AuditRow*> cells;
  for (const auto& row : rows) {
    if (std::find(faults.begin(), faults.end(), row.fault) == faults.end()) faults.push_back(row.fault);
    auto& cell = cells[{row.fault, row.kind}];
    if (cell == nullptr || row.trials >= cell->trials) cell = &row;
  }
  std::vector<std::string> header{"planted fault"};
  header.insert(header.end(), kKinds.begin(), kKinds.end());
  Table table(header);
  for (const auto& fault : faults) {
    std::vector<std::string> line{visible(fault)};
    for (const auto& kind : kKinds) {
      const auto* cell = cells[{fault, kind}];
      line.push_back(cell == nullptr ? "-"
                                     : text(significant(cell->found), " of ", significant(cell->claimed), ": ",
                                            visible(cell->verdict)));
    }
    table.add(line);
  }
  return text("Epsilon that each audit finds at least, of the claimed one:\n\n", table.str());
}

Json json_of(const std::vector<AuditRow>& rows) {
  auto out = Json::array();
  for (const auto& row : rows)
    out.push_back({{"file", row.file},
                   {"kind", row.kind},
                   {"fault", row.fault},
                   {"trials", row.trials},
                   {"claimed_epsilon", row.claimed},
                   {"lower_epsilon", row.found},
                   {"verdict", row.verdict}});
  return {{"audits", out}};
}

Picture audits_picture(const std::vector<AuditRow>& rows) {
  std::map<std::tuple<size_t, bool, std::string>, std::vector<std::vector<double>>> found;  // by kind and fault
  std::set<double> claimed;
  std::set<int64_t> sizes;
  for (const auto& row : rows) {
    if (row.canaries == 0) continue;
    const auto canaries = static_cast<double>(row.canaries);
    found[{place_of(row.kind), row.fault != "none", row.fault}].push_back({canaries, row.found});
    sizes.insert(row.canaries);
    claimed.insert(row.claimed);
  }
  if (found.empty()) return {.name = "audits", .script = {}};
  std::string blocks;
  std::vector<std::string> lines;
  size_t id = 0;
  const double least = static_cast<double>(*sizes.begin()), most = static_cast<double>(*sizes.rbegin());
  for (const auto epsilon : claimed) {
    blocks += block(text("claimed", ++id), {{least / 1.2, epsilon}, {most * 1.2, epsilon}});
    lines.push_back(text("$claimed", id, " using 1:2 with lines lw 2 dt 2 lc rgb '#303030' title ",
                         quoted_for_gnuplot(text("claimed: ", significant(epsilon)))));
  }
  // A fault has one colour; audits that see only the model are dashed.
  std::vector<std::string> faults;
  for (const auto& [series, points] : found) {
    const auto& [kind, faulty, fault] = series;
    if (std::find(faults.begin(), faults.end(), fault) == faults.end()) faults.push_back(fault);
    const auto colour = static_cast<size_t>(std::find(faults.begin(), faults.end(), fault) - faults.begin());
    const bool black_box = kKinds[kind] == "model";
    blocks += block(text("found", ++id), points);
    lines.push_back(text("$found", id, " using 1:2 with linespoints lw 2 pt ", black_box ? "6 dt 3" : "7",
                         " ps 1 lc rgb '", colour_of_run(colour), "' title ",
                         quoted_for_gnuplot(text(kKinds[kind], ": ", faulty ? fault : "as it is"))));
  }
  std::vector<std::string> tics;
  for (const auto canaries : sizes) tics.push_back(text("'", canaries, "' ", canaries));
  return {
      .name = "audits",
      .script = text(blocks, "set logscale x 10\nset key outside right top\nset xlabel 'canaries in one training'\n",
                     "set ylabel 'epsilon'\nset yrange [0:*]\nset xrange [", digits_of(least / 1.2), ":",
                     digits_of(most * 1.2), "]\nset xtics (", join(tics, ", "),
                     ")\nset title 'Epsilon claimed, and found at least by one training'\nplot ",
                     join(lines, ", \\\n  "), "\n"),
      .width = 1100,
      .height = 600};
}

}  // namespace shade::report
