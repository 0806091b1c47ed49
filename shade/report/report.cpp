#include "shade/report/report.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/report/audits.h"
#include "shade/report/facts.h"
#include "shade/report/page.h"
#include "shade/report/row_names.h"
#include "shade/report/text.h"

namespace shade::report {
namespace {

void write_text(WrittenReport& report, const std::filesystem::path& file, const std::string& content) {
  make_file(file, report.readers);
  write_output(file, content, report.readers);
  report.files.push_back(file);
}

// Pictures of an earlier report with other rows would lie beside the new ones.
void remove_pictures(const std::filesystem::path& folder, const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const auto& name : names) {
    std::filesystem::remove(folder / (name + ".png"), ignored);
    std::filesystem::remove(folder / "scripts" / (name + ".gp"), ignored);
  }
}

void draw_pictures(WrittenReport& report, const std::vector<Picture>& pictures, const std::filesystem::path& folder) {
  if (!find_gnuplot()) {
    report.warnings.emplace_back(
        "no pictures: gnuplot is not in PATH; install it (Debian: gnuplot-nox) and run shade report again");
    return;
  }
  for (const auto& picture : pictures) {
    if (auto fault = draw(picture, folder, report.readers); !fault.empty())
      report.warnings.push_back(std::move(fault));
    else
      report.files.push_back(folder / (picture.name + ".png"));
  }
}

std::filesystem::path pictures_folder(const std::filesystem::path& output, Readers readers = Readers::by_umask) {
  // Who names a folder of this name means it.
  const auto named = output.has_filename() ? output.filename() : output.parent_path().filename();
  auto folder = named == "visualizations" ? output : output / "visualizations";
  make_report_folder(folder, readers);
  return folder;
}

}  // namespace

bool WrittenReport::has_pictures() const {
  return std::any_of(files.begin(), files.end(), [](const auto& file) { return file.extension() == ".png"; });
}

WrittenReport write_report(const std::filesystem::path& folder, const std::filesystem::path& output) {
  const auto results = read_results(folder);
  const auto findings = findings_of(results);
  WrittenReport report;
  for (const auto& [file, reason] : results.broken) report.warnings.push_back(text("broken: ", file, ": ", reason));
  for (const auto& [file, reason] : results.foreign) report.warnings.push_back(text("skipped: ", file, ": ", reason));
  report.summary = summary_of(results, findings);
  report.json = report_json(results, findings);

  const auto pictures = pictures_folder(output);
  write_text(report, output / "results.csv", csv_of(results));
  write_text(report, pictures / "summary.txt", report.summary);
  write_text(report, output / "report.html", page_of(report.json, report.summary));
  remove_pictures(pictures, picture_names());
  draw_pictures(report, pictures_of(results), pictures);
  return report;
}

std::string write_growth_picture(const Json& scan, const std::vector<Json>& results,
                                 const std::filesystem::path& output) {
  WrittenReport report;
  std::vector<ResultRow> rows;
  for (const auto& result : results) rows.push_back(row_of(result, "growth"));
  std::vector<ResultRow*> named;
  for (auto& row : rows) named.push_back(&row);
  const auto folder = pictures_folder(output);
  const auto picture = growth_picture(scan, common_to(named));
  remove_pictures(folder, {picture.name});
  draw_pictures(report, {picture}, folder);
  return report.warnings.empty() ? "" : report.warnings.front();
}

WrittenReport write_audit_report(const std::filesystem::path& folder, const std::filesystem::path& output) {
  const auto rows = read_audits(folder);
  WrittenReport report;
  // The audit of a run's records is closed to others, and so is what repeats it.
  const bool any_closed =
      std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return !open_to_others(folder / row.file); });
  report.readers = any_closed ? Readers::owner : Readers::by_umask;
  report.summary = summary_of(rows);
  report.json = json_of(rows);
  const auto pictures = pictures_folder(output, report.readers);
  write_text(report, pictures / "summary.txt", report.summary);
  const auto picture = audits_picture(rows);
  remove_pictures(pictures, {picture.name});
  if (!picture.script.empty()) draw_pictures(report, {picture}, pictures);
  return report;
}

WrittenReport write_training_report(const std::vector<std::filesystem::path>& folders,
                                    const std::vector<ReferenceLine>& lines, const std::filesystem::path& output,
                                    const std::vector<RunDetails>& details) {
  const auto runs = read_training_runs(folders, details);
  WrittenReport report;
  report.summary = summary_of(runs);
  report.json = json_of(runs);
  std::vector<Settings> environments;
  for (const auto& run : runs) {
    environments.push_back(run.environment);
    environments.back().erase("command");  // the page has a command for each run
  }
  report.json["facts"] = facts_of(environments);
  report.json["lines"] = Json::array();
  for (const auto& line : lines) report.json["lines"].push_back({{"value", line.value}, {"words", line.words}});
  // Losses of a private run are not private.
  const bool any_private = std::any_of(runs.begin(), runs.end(), [](const auto& run) { return run.is_private; });
  report.readers = any_private ? Readers::owner : Readers::by_umask;
  const auto pictures = pictures_folder(output, report.readers);
  write_text(report, pictures / "summary.txt", report.summary);
  write_text(report, output / "report.html", page_of(report.json, report.summary));
  const auto picture = training_picture(runs, lines);
  remove_pictures(pictures, {picture.name});
  draw_pictures(report, {picture}, pictures);
  return report;
}

void make_report_folder(const std::filesystem::path& folder, Readers readers) {
  const auto last = folder.has_filename() ? folder : folder.parent_path();  // "a/b/" is where b leads
  std::error_code absent;
  SHADE_REQUIRE(readers == Readers::by_umask || !std::filesystem::is_symlink(last, absent), last.string(),
                " is a symbolic link, and the report of a private run is for its owner alone; expected a folder, or "
                "nothing: remove the link, or choose another --output-dir");
  make_folder(folder, readers);
}

}  // namespace shade::report
