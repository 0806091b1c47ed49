// Any bytes as a folder of result files, or as the metrics of training runs: refused with an Error, or a report in
// which no text of theirs is a command for gnuplot, an element of the page or an order for a terminal.
//
// The input's first byte is the kind of folder; NUL bytes separate its name, then its files.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <set>

#include "fuzz/in_memory.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/report/findings.h"
#include "shade/report/page.h"
#include "shade/report/pictures.h"
#include "shade/report/text.h"
#include "shade_report_page.h"

namespace {

namespace fs = std::filesystem;
using namespace shade;
using namespace shade::report;

// The statements alone: the text of every string constant is left out.
std::string statements_of(const std::string& script) {
  std::string out;
  char quote = 0;
  for (size_t i = 0; i < script.size(); ++i) {
    const char c = script[i];
    if (quote == 0) {
      out += c;
      if (c == '"' || c == '\'') quote = c;
      continue;
    }
    SHADE_CHECK(c != '`' && c != '\n' && c != '\r' && c != '\0', "a string constant of gnuplot ends early:\n", script);
    if (c == '\\' && quote == '"') {
      ++i;
    } else if (c == quote) {
      out += c;
      quote = 0;
    }
  }
  SHADE_CHECK(quote == 0, "a string constant of gnuplot has no end:\n", script);
  return out;
}

void check_script(const std::string& script) {
  static const std::set<std::string> kFirst{"set", "unset", "plot", "EOD"};
  for (const auto& line : split(statements_of(script), '\n')) {
    const auto word = line.substr(0, line.find(' '));
    const bool data = line.empty() || line[0] == '-' || line[0] == '$' || std::isdigit(line[0]) != 0 || word == "NaN";
    const bool continued = line.starts_with("  $") || line.starts_with("  NaN");
    SHADE_CHECK(data || continued || kFirst.contains(word), "a statement of the input's: ", line, "\n", script);
    SHADE_CHECK(line.find_first_of("`!|;#@") == line.npos, "a character of the input's: ", line, "\n", script);
  }
}

void check_page(const std::string& page) {
  static const std::string kPage = kReportPage;
  static const auto tags = std::count(kPage.begin(), kPage.end(), '<') - 1;  // <!--summary--> is replaced
  SHADE_CHECK(std::count(page.begin(), page.end(), '<') == tags, "an element of the input's");
}

void report_results(const fs::path& folder) {
  const auto results = read_results(folder);
  const auto findings = findings_of(results);
  const auto summary = summary_of(results, findings);
  SHADE_CHECK(visible_lines(summary) == summary, "a terminal would obey the summary");
  (void)csv_of(results);
  check_page(page_of(report_json(results, findings), summary));
  for (const auto& picture : pictures_of(results)) check_script(picture.script);
}

void report_runs(const std::vector<fs::path>& folders, const std::string& words) {
  const auto runs = read_training_runs(folders);
  const auto summary = summary_of(runs);
  SHADE_CHECK(visible_lines(summary) == summary, "a terminal would obey the summary");
  check_page(page_of(json_of(runs), summary));
  check_script(training_picture(runs, {{.value = 1, .words = words}}).script);
}

void write(const fs::path& file, const std::string& content) { std::ofstream(file, std::ios::binary) << content; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  static const fs::path folder = [] {
    std::string name = (fs::temp_directory_path() / "report_fuzz_XXXXXX").string();
    SHADE_CHECK(::mkdtemp(name.data()) != nullptr, "no folder ", name);
    return name;
  }();
  auto parts = split(std::string_view(reinterpret_cast<const char*>(bytes) + 1, size - 1), '\0');
  auto name = parts.front().substr(0, 100);
  std::replace(name.begin(), name.end(), '/', '_');
  parts.erase(parts.begin());
  parts.resize(std::min<size_t>(parts.size(), 4));
  fs::path place;
  try {
    if (bytes[0] % 2 == 0) {
      place = folder / "results";
      fs::create_directory(place);
      for (size_t i = 0; i < parts.size(); ++i) write(place / text(i, name, ".json"), parts[i]);
      report_results(place);
    } else {
      place = folder / ("run" + name);
      fs::create_directory(place);
      std::vector<fs::path> runs;
      for (size_t i = 0; i < parts.size(); ++i) {
        runs.push_back(place / text(i, name));
        fs::create_directory(runs.back());
        write(runs.back() / "metrics.jsonl", parts[i]);
      }
      report_runs(runs, name);
    }
  } catch (const Error& fault) {
    fuzz::check_not_internal(fault.what());
  }
  fs::remove_all(place);
  return 0;
}
