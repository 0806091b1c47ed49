// shade report: the result files of a folder as a table, a CSV, pictures and one page; training runs as a table, a
// picture and a page. docs/report.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/report/pictures.h"

namespace shade::report {

struct WrittenReport {
  std::string summary;                       // what summary.txt holds
  std::vector<std::filesystem::path> files;  // that were written
  std::vector<std::string> warnings;         // files that were skipped, pictures that weren't drawn
  Json json;                                 // rows, findings, colours
  Readers readers = Readers::by_umask;       // of all that is written from it, and of its files

  bool has_pictures() const;
};

// Reads folder/*.json and writes into `output`: results.csv, report.html, visualizations/summary.txt and pictures.
// Without gnuplot there are no pictures, and a warning says so. Throws UsageError if the folder has no results.
WrittenReport write_report(const std::filesystem::path& folder, const std::filesystem::path& output);

// Writes visualizations/growth.png into `output` from the JSON of shade scan and the results it was made from. Empty,
// or why there is no picture.
std::string write_growth_picture(const Json& scan, const std::vector<Json>& results,
                                 const std::filesystem::path& output);

// Reads results of shade audit and writes visualizations/summary.txt and, of audits with many canaries, audits.png.
WrittenReport write_audit_report(const std::filesystem::path& folder, const std::filesystem::path& output);

// Reads the metrics of runs of shade train and writes report.html, visualizations/summary.txt and
// training.png. `details` has an element for each run, or is empty.
WrittenReport write_training_report(const std::vector<std::filesystem::path>& runs,
                                    const std::vector<ReferenceLine>& lines, const std::filesystem::path& output,
                                    const std::vector<RunDetails>& details = {});

// Folders that a report makes in the one that the user named.

// As make_folder(). For `owner` a symbolic link is refused (UsageError): what it leads to stays as open as it is.
void make_report_folder(const std::filesystem::path& folder, Readers readers);

}  // namespace shade::report
