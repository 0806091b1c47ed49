// The page of a report as a browser shows it: wide and narrow, light and dark, with few rows and many.
#include <gtest/gtest.h>

#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/report/findings.h"
#include "shade/report/report.h"
#include "tests/io/scratch.h"
#include "tests/report/sample_rows.h"
#include "tests/support/process.h"

namespace shade::report {
namespace {

namespace fs = std::filesystem;
using test::SampleRow;

std::string source(const std::string& file) { return io::content(test::source_root() + "/" + file); }

std::string find_browser() {
  for (const auto* name : {"chromium-headless-shell", "chromium"})
    for (const auto& folder : split(std::getenv("PATH"), ':'))
      if (fs::exists(fs::path(folder) / name)) return fs::path(folder) / name;
  return "";
}

class Page : public testing::Test {
 protected:
  void write_rows(const std::vector<SampleRow>& rows) {
    for (size_t i = 0; i < rows.size(); ++i)
      std::ofstream(scratch_.path() / text(i, ".json")) << test::result_of(rows[i]).dump();
    write_report(scratch_.path(), scratch_.path() / "out");
  }
  // What page_check.js found; its text.
  std::string shown(int width, bool dark) {
    auto page = io::content(scratch_.path() / "out/report.html");
    page.insert(page.rfind("</body>"), "<script>" + source("tests/report/page_check.js") + "</script>");
    std::ofstream(scratch_.path() / "checked.html") << page;
    const auto outcome =
        test::run({find_browser(), "--headless", "--no-sandbox", "--disable-gpu",
                   text("--user-data-dir=", (scratch_.path() / "browser").string()),
                   text("--blink-settings=preferredColorScheme=", dark ? 0 : 1), text("--window-size=", width, ",900"),
                   "--dump-dom", "file://" + (scratch_.path() / "checked.html").string()});
    const std::string mark = "<pre id=\"faults\">";
    const auto begin = outcome.output.rfind(mark), end = outcome.output.find("</pre>", begin);
    if (begin == std::string::npos) {
      ADD_FAILURE() << "the page's script failed: " << outcome.output.substr(0, 2000);
      return "";
    }
    auto said = outcome.output.substr(begin + mark.size(), end - begin - mark.size());
    for (const auto& [from, to] : {std::pair("&lt;", "<"), {"&gt;", ">"}, {"&amp;", "&"}, {"&nbsp;", " "}})
      said = join(split_by(said, from), to);
    const auto json = parse_json(said);
    for (const auto& fault : json["faults"])
      ADD_FAILURE() << width << " px, " << (dark ? "dark" : "light") << ": " << fault.get<std::string>();
    EXPECT_GT(json["charts"].get<int>(), 0);
    return json["text"].get<std::string>();
  }
  void expect_readable(const std::vector<std::string>& words) {
    if (find_browser().empty()) GTEST_SKIP() << "no browser: install chromium-headless-shell";
    for (const int width : {1280, 400}) {
      for (const bool dark : {false, true}) {
        const auto said = shown(width, dark);
        for (const auto& word : words) EXPECT_NE(said.find(word), std::string::npos) << word;
      }
    }
  }
  static std::vector<std::string> split_by(const std::string& words, const std::string& mark) {
    std::vector<std::string> out;
    size_t at = 0;
    for (size_t next = 0; (next = words.find(mark, at)) != std::string::npos; at = next + mark.size())
      out.push_back(words.substr(at, next - at));
    out.push_back(words.substr(at));
    return out;
  }

  io::Scratch scratch_;
};

TEST_F(Page, OneRowSaysWhenWhereAndHow) {
  write_rows({{.dp = "ghost"}});
  expect_readable({"2026-01-31T12:00:00Z", "example-host", "shade bench --model llama-nano", "shade 0.2.0",
                   "libtorch 2.15.0", "Example CPU"});
}

TEST_F(Page, EighteenRows) {
  write_rows(test::eighteen_rows());
  expect_readable({"Over batch size", "batch 8, grad accum 4", "zero2", "zero3"});
}

TEST_F(Page, FortyRowsAndOneThatFailed) {
  const Json failed{{"failed", true},
                    {"reason", "out of memory"},
                    {"log_key", "x"},
                    {"arguments", {"--dp", "flash", "--ranks", "2"}}};
  std::ofstream(scratch_.path() / "failed.json") << failed.dump();
  write_rows(test::forty_rows());
  expect_readable({"did not run", "Memory through one step", "flash_bookkeeping, zero3"});
}

TEST_F(Page, TrainingRunsHaveOneToo) {
  std::vector<fs::path> runs;
  for (const auto* name : {"plain", "private"}) {
    runs.push_back(scratch_.path() / name);
    fs::create_directories(runs.back());
    std::ofstream out(runs.back() / "metrics.jsonl");
    for (int step = 1; step <= 60; ++step) {
      const Json losses{{"loss", 1 + 4.0 / step}};
      Json line{{"step", step}};
      if (runs.size() == 1)
        line.update(losses);
      else
        line.update({{"not_private", losses}, {"epsilon", 0.1 * std::sqrt(step)}, {"delta", 1e-5}});
      out << line.dump() << "\n";
      if (step % 20 == 0)
        out << Json{{"step", step},
                    {"eval_loss", 1.5},
                    {"eval_accuracy", 0.2},
                    {"eval_f1", 0.1},
                    {"eval_majority", 0.3}}
            << "\n";
    }
    std::ofstream(runs.back() / "recipe.toml")
        << "[data]\nclasses = [\"" << std::string(100, 'c')
        << "\"]\n[optim]\nlr = " << 0.01 * static_cast<double>(runs.size()) << "\n[dp]\nsigma = 1.5\n";
    std::ofstream(runs.back() / "environment.json")
        << Json{{"command", "shade train --model " + std::string(300, 'm')}}.dump();
  }
  const std::vector<RunDetails> details{
      {.statement = {}, .without_effect = {"dp.sigma"}},
      {.statement = {"epsilon 0.7746", "not covered: " + std::string(200, 'u') + "; losses"}, .without_effect = {}}};
  const auto report =
      write_training_report(runs, {{.value = 2.89, .words = "bytes by frequency"}}, scratch_.path() / "out", details);
  EXPECT_NE(std::find(report.files.begin(), report.files.end(), scratch_.path() / "out/report.html"),
            report.files.end());
  expect_readable({"2 training runs", "Epsilon spent", "epsilon 0.7746 at delta 1e-05", "bytes by frequency: 2.890",
                   "last written", "Z", "show them only to people cleared for the data", "optim.lr",
                   "Below the majority class", "most frequent class: 30.0 % (dashed)", "does not apply",
                   "Privacy statements", "losses", "shade train --model mmm", "not shown: the run is private"});
}

// One style on the terminal and on the page.
TEST_F(Page, NumbersAreThoseOfTheTerminal) {
  if (std::system("node --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "nodejs is not installed";
  const std::vector<double> values{0,     1.3e-6, 1.94e-7,   0.00123, 0.00082, 0.0451, 0.081, 0.5,
                                   0.999, 0.9996, 1,         4.56,    9.996,   12.34,  99.97, 123.4,
                                   999.7, 1023.4, 1234.5678, 12345.6, 91000,   6.1e6,  -3.21};
  Json expected = Json::array();
  for (const double v : values)
    expected.push_back(
        {significant(v), significant(v, 4), percent(v), signed_percent(v), memory_text(v), time_text(std::abs(v))});
  std::ofstream(scratch_.path() / "numbers.js")
      << source("shade/report/page/numbers.js") << "\nconsole.log(JSON.stringify(" << Json(values).dump()
      << ".map(v => [significant(v), significant(v, 4), percent(v), signedPercent(v), megabytes(v), "
         "millis(Math.abs(v))])));\n";
  const auto outcome = test::run({"node", (scratch_.path() / "numbers.js").string()});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto found = parse_json(outcome.output);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(found[i], expected[i]) << values[i];
}

}  // namespace
}  // namespace shade::report
