// shade report: redraws what a folder of results says.
#include <cstdio>

#include "shade/base/log.h"
#include "shade/cli/verb.h"
#include "shade/experiment/report.h"

namespace shade::cli {

int run_report(const Arguments& arguments) {
  std::string folder, output;
  CommandLine line("report", "Table, CSV, pictures and one HTML page from the result files of a folder.",
                   "shade report results/run_20260131_120000 --output-dir redrawn");
  line.app().add_option("DIR", folder, "a folder with JSON files of shade bench or shade compare")->required();
  line.app().add_option("--output-dir", output, "where to write [DIR]")->type_name("OUT");
  if (const auto status = line.parse(arguments)) return *status;

  const auto report = experiment::write_report(folder, output.empty() ? folder : output);
  std::printf("%s\n", report.summary.c_str());
  for (const auto& file : report.files) std::printf("wrote %s\n", file.c_str());
  for (const auto& warning : report.warnings) log::warning(warning);
  if (!line.json_file.empty()) write_json(line.json_file, report.json);
  return 0;
}

}  // namespace shade::cli
