#include "shade/report/page.h"

#include "shade/base/error.h"
#include "shade/report/facts.h"
#include "shade/report/palette.h"
#include "shade/report/series.h"
#include "shade_report_page.h"

namespace shade::report {
namespace {

Json object_of(const Amounts& amounts) {
  Json out = Json::object();
  for (const auto& [name, value] : amounts) out[name] = value;
  return out;
}

Json json_of(const Results& results, const AllSeries& series, const ResultRow& row) {
  Json out{{"file", row.file},
           {"mode", row.mode},
           {"method", row.method},
           {"model", row.model},
           {"model_name", row.model_name},
           {"preset", row.preset},
           {"shard", row.shard},
           {"seq_length", row.seq_length},
           {"batch_size", row.batch_size},
           {"ranks", row.ranks},
           {"group", row.group},
           {"place", place_of(row)},
           {"series", series.number(row)},
           {"name", row.name}};
  if (row.failed()) {
    out["failed"] = true;
    out["reason"] = row.failure;
    return out;
  }
  catalog::write_figures(out, row, true);
  out["breakdown"] = object_of(row.breakdown_mb);
  out["breakdown_max"] = object_of(row.highest_mb);
  out["rank_peaks_mb"] = row.rank_peaks_mb;
  out["phases_ms"] = object_of(row.phases_ms);
  if (row.timeline) out["timeline"] = row.timeline->json();
  if (!row.peak_owner.empty()) out["peak_owner"] = row.peak_owner;
  if (row.fits) out["fits"] = *row.fits;
  if (const auto cost = cost_of(results, row)) {
    for (const auto& [key, column, member] : kCosts) out["cost"][key] = (*cost).*member;
    out["cost"]["time_words"] = time_cost_text(row, *results.without_privacy(row));
  }
  if (const auto* two = under_zero2(results, row); two != nullptr && two->time_ms > 0 && two->peak_mb > 0)
    out["over_zero2"] = {{"time_percent", 100 * (time_over(row, *two) - 1)},
                         {"time_words", time_cost_text(row, *two)},
                         {"memory_percent", 100 * (row.peak_mb / two->peak_mb - 1)}};
  const auto [low, high] = results.range_ms(row);
  out["range_ms"] = {low, high};
  out["snapshots"] = Json::array();
  for (const auto& snapshot : row.snapshots)
    out["snapshots"].push_back(
        {{"stage", snapshot.stage}, {"allocated_mb", snapshot.allocated_mb}, {"highest_mb", snapshot.highest_mb}});
  return out;
}

Json colours_of(const Results& results) {
  Json memory = Json::object(), spans = Json::object();
  for (const auto& row : results.rows) {
    for (const auto& [kind, mb] : row.breakdown_mb) memory[kind] = colour_of_memory(kind);
    for (const auto& [kind, mb] : row.course().kinds_mb) memory[kind] = colour_of_memory(kind);
    if (!row.timeline) continue;
    for (const auto& one : row.timeline->spans) spans[one.name] = colour_of_span(one.name);
    for (const auto& one : row.timeline->collectives) spans[one.name] = colour_of_span(one.name);
  }
  return {{"memory", memory}, {"spans", spans}};
}

Json json_of(const Advice& advice) {
  Json out{{"file", advice.file},
           {"recommended", advice.recommended},
           {"limit_mb", advice.limit_mb},
           {"timed", advice.timed},
           {"rows", Json::array()}};
  for (const auto& [name, verdict, reason, peak_mb, time, cost] : advice.rows)
    out["rows"].push_back({{"name", name},
                           {"verdict", verdict},
                           {"reason", reason},
                           {"peak_memory_mb", peak_mb},
                           {"time", time},
                           {"cost", cost}});
  return out;
}

// The columns of the table, as the page draws them.
Json figures_with_headings(const Results& results) {
  auto out = Json::array();
  for (const auto& figure : catalog::kFigures)
    if (!figure.heading.empty())
      out.push_back({{"key", figure.key},
                     {"unit", figure.unit},
                     {"heading", figure.key == "tokens_per_second" ? results.throughput_unit() : figure.heading}});
  return out;
}

void replace(std::string& in, const std::string& mark, const std::string& by) {
  const auto at = in.find(mark);
  SHADE_CHECK(at != std::string::npos, "the page has no ", mark);
  in.replace(at, mark.size(), by);
}

std::string html_escaped(const std::string& words) {
  std::string out;
  for (const char c : words) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

// A script ends at the first "</script", also inside of a string.
std::string embedded(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace))
    out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

}  // namespace

Json report_json(const Results& results, const std::vector<Finding>& findings) {
  Json out{
      {"findings", Json::array()}, {"rows", Json::array()}, {"failures", Json::array()}, {"skipped", Json::array()}};
  for (const auto& [about, words, is_doubt] : findings)
    out["findings"].push_back({{"about", about}, {"text", words}, {"doubt", is_doubt}});
  const AllSeries series(results);
  for (const auto& row : results.rows) out["rows"].push_back(json_of(results, series, row));
  for (const auto& row : results.failures) out["failures"].push_back(json_of(results, series, row));
  for (const auto& line : batch_lines(results))
    for (const auto* row : line.rows)
      out["rows"][static_cast<size_t>(row - results.rows.data())]["line"] = {{"name", line.name},
                                                                             {"colour", line.colour}};
  out["series"] = Json::array();
  for (const auto& one : series.list()) out["series"].push_back({{"word", one.word}, {"colour", one.colour()}});
  std::vector<Settings> environments;
  for (const auto* rows : {&results.rows, &results.failures})
    for (const auto& row : *rows) environments.push_back(row.environment);
  out["facts"] = facts_of(environments);
  out["throughput"] = results.throughput_unit();
  out["baseline"] = results.baseline();
  out["range"] = results.range_text();
  for (const auto* skipped : {&results.broken, &results.foreign})
    for (const auto& [file, reason] : *skipped) out["skipped"].push_back({{"file", file}, {"reason", reason}});
  out["common"] = results.common;
  out["planned"] = results.all_planned();
  out["advice"] = Json::array();
  for (const auto& advice : results.advice) out["advice"].push_back(json_of(advice));
  out["colours"] = colours_of(results);
  out["figures"] = figures_with_headings(results);
  return out;
}

std::string page_of(const Json& report, const std::string& summary) {
  std::string page = kReportPage;
  replace(page, "<!--summary-->", html_escaped(summary));  // first: its text may hold any mark
  replace(page, "/*data*/null", embedded(report));
  return page;
}

}  // namespace shade::report
