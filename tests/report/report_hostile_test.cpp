// shade report from hostile result files: text in them is drawn or refused, never run by gnuplot or obeyed by a
// terminal. Every payload that is a command makes a file called PWNED.
#include <gtest/gtest.h>

#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/report/report.h"
#include "tests/io/scratch.h"

namespace shade::report {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;

const std::vector<std::string>& payloads() {
  static const std::vector<std::string> kPayloads{
      // run by gnuplot in double quotes, or by a shell
      "`id>PWNED`", "`>PWNED`", "a `touch PWNED` b", "\\`touch PWNED\\`", "\\\\`touch PWNED`", "'`touch PWNED`'",
      "\"`touch PWNED`\"", "$(touch PWNED)", "${IFS}`touch${IFS}PWNED`", "; touch PWNED;", "| touch PWNED",
      "&& touch PWNED",
      // out of the quotes, then a command
      "\"; system(\"touch PWNED\"); \"", "'; system('touch PWNED'); '", "'\nsystem('touch PWNED')\n'",
      "\"\nsystem(\"touch PWNED\")\n\"", "''; system('touch PWNED'); ''", "'''; system('touch PWNED'); '''",
      "' . system('touch PWNED') . '", "\" . system(\"touch PWNED\") . \"", "\\\"; system(\"touch PWNED\"); \\\"",
      "'\n!touch PWNED\n'", "\n!touch PWNED\n", "\n! touch PWNED #", "\r!touch PWNED\r", "\r\n!touch PWNED\r\n",
      "\"\nset output 'PWNED'\nset table\n", "'\nset print 'PWNED'\nprint 1\n'",
      "'\nset print '|touch PWNED'\nprint 1\n'", "'\nload '<touch PWNED'\n'", "\"\nload \"< touch PWNED\"\n\"",
      "'\nplot '<touch PWNED'\n'", "<touch PWNED", "| touch PWNED", "'\neval \"!touch PWNED\"\n'",
      "', '<touch PWNED' title '", "\\\n!touch PWNED",
      // the end of a data block
      "EOD", "\nEOD\n!touch PWNED\n", "\nEOD\nsystem('touch PWNED')\n$x << EOD\n", "$x << EOD",
      // quotes, backslashes and comments alone
      "'", "''", "'''", "\"", "\"\"", "\\", "\\\\", "\\'", "\\\"", "#", "a # b", "\\n\\t\\140touch PWNED\\140",
      // macros and formats
      "@GPVAL_VERSION", "@GPVAL_TERM!touch PWNED", "%s%s%s%n%n", "%d %g %.999f %c", "%%", "100 %", "%",
      // markup of enhanced text, braces that open a block
      "{/=90 big} x_{1} y^{2} @a &{b} ~c{d}", "{", "}", "}}}\n!touch PWNED\n{{{",
      // terminals
      "\x1b[31mred\x1b[0m", "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1bP+q544e\x1b\\",
      "\xc2\x9b"
      "31mred",
      "\u202ered\u202c", "\u2066\u2067\u2069", "\u200e\u200f\u061c", "\u2028\u2029", "\xc2\x90q\xc2\x9c", "\xc2\x85",
      "\b\b\b\x7f", "\t\v\f", "a\0b"s,
      // pages, tables, paths
      "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "&lt;&#0;", "#0123456789",
      "=cmd|' /C calc'!A0", "=1+1", "+1+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "@SUM(1+1)", "\t=1+1", "\r=1+1",
      "=HYPERLINK(\"http://x\",\"y\")", "a,b\r\nc", "\",=1+1", "a\",\"=1+1", "../../PWNED", "/dev/null", "~",
      // letters
      "\u00e9\u4e2d\U0001f600", "\u202egnp.", std::string(5000, 'x'), std::string(5000, '\''), "", " ", "-"};
  return kPayloads;
}

// All strings below `json`, and the names of amounts, which are shown as well.
void poison(Json& json, const std::string& payload, const std::set<std::string>& spared) {
  for (auto& [key, value] : json.items()) {
    if (value.is_string() && !spared.contains(key)) value = payload;
    if (value.is_structured()) poison(value, payload, spared);
  }
  for (const auto* amounts : {"breakdown", "phases_ms"})
    if (json.is_object() && json.contains(amounts)) json[amounts][payload.c_str()] = 40.0;  // up to a NUL
}

Json result_of(const std::string& dp, int64_t batch) {
  const double cost = dp == "none" ? 1 : 1.5;
  const Json span{{"name", "forward"}, {"from_ms", 0.0}, {"to_ms", 20.0}};
  return {{"mode", dp == "none" ? "no_dp" : dp},
          {"model", "llama-nano"},
          {"shard", "zero3"},
          {"dp", dp},
          {"log_key", "key"},
          {"seq_length", 64},
          {"batch_size", batch},
          {"num_ranks", 2},
          {"peak_memory_mb", 100.0 * cost},
          {"avg_time_ms", 50.0 * cost},
          {"times_ms", {45.0 * cost, 55.0 * cost}},
          {"tokens_per_second", 5000.0},
          {"communication", {{"bytes", 3 << 20}, {"time_ms", 12.0}, {"exposed_ms", 4.0}}},
          {"cpu_overhead_ms", 1.0},
          {"breakdown", {{"parameters", 20.0}, {"activations", 40.0}}},
          {"phases_ms", {{"forward", 10.0}}},
          {"peak_owner", {{"words", "block 1"}}},
          {"snapshots", {{{"stage", "after warmup"}, {"allocated_mb", 30.0}, {"max_allocated_mb", 100.0}}}},
          {"timeline",
           {{"step_ms", 50.0},
            {"spans", {span}},
            {"collectives", {span}},
            {"memory", {{"ms", {0.0, 20.0}}, {"activations", {1.0, 2.0}}}}}},
          {"config",
           {{"bench", {{"model", "llama-nano"}, {"checkpointing", "none"}, {"dtype", "fp32"}}},
            {"shard", {{"shard", "zero3"}}},
            {"optim", {{"optim", "adamw"}}},
            {"privacy", {{"dp", dp}, {"style", "flat"}}}}}};
}

// Stages are drawn for the shape with the largest peak alone: it has them all, of one word and of two.
Json with_stages() {
  auto out = result_of("ghost", 2);
  out["peak_memory_mb"] = 1000.0;
  for (const auto& payload : payloads())
    for (const auto& stage : {payload, payload + " " + payload})
      out["snapshots"].push_back({{"stage", stage}, {"allocated_mb", 30.0}});
  return out;
}

// The cells of RFC 4180's text, line by line.
std::vector<std::vector<std::string>> cells_of(const std::string& csv) {
  std::vector<std::vector<std::string>> out{{""}};
  bool quoted = false;
  for (size_t i = 0; i < csv.size(); ++i) {
    auto& cell = out.back().back();
    if (quoted && csv[i] == '"' && i + 1 < csv.size() && csv[i + 1] == '"')
      cell += csv[++i];
    else if (csv[i] == '"' && (quoted || cell.empty()))
      quoted = !quoted;
    else if (!quoted && csv[i] == ',')
      out.back().emplace_back();
    else if (!quoted && csv[i] == '\r' && i + 1 < csv.size() && csv[i + 1] == '\n' && ++i > 0)
      out.push_back({""});
    else
      cell += csv[i];
  }
  out.pop_back();  // after the last line's end
  return out;
}

// A spreadsheet would run a cell that begins so, but for numbers.
bool is_formula(const std::string& cell) {
  return !cell.empty() && "=+-@"s.find(cell.front()) != std::string::npos && !parse_real(cell);
}

// As much of a payload as a file may be called.
std::string file_name(std::string payload) {
  std::erase_if(payload, [](char c) { return c == '/' || c == '\0'; });
  return payload.substr(0, 100);
}

// Hundreds of them: without write_json's flush to the disk.
void write_result(const fs::path& file, const Json& json) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << json.dump();
}

class HostileReport : public testing::Test {
 protected:
  void SetUp() override {
    if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
    before_ = fs::current_path();
    fs::current_path(scratch_.path());
  }
  void TearDown() override {
    for (const auto& entry : fs::recursive_directory_iterator(scratch_.path()))
      EXPECT_NE(entry.path().filename(), "PWNED") << "a payload was run in " << entry.path().parent_path();
    if (!before_.empty()) fs::current_path(before_);
  }
  void expect_drawn(const WrittenReport& report) {
    for (const auto& warning : report.warnings) ADD_FAILURE() << visible_lines(warning).substr(0, 2000);
    EXPECT_EQ(visible_lines(report.summary), report.summary) << "a terminal would obey it";
    for (const auto& file : report.files)
      if (file.extension() == ".png") drawn_.insert(file.stem().string());
  }

  io::Scratch scratch_;
  fs::path before_;
  std::set<std::string> drawn_;
};

TEST_F(HostileReport, EveryStringOfAResultFileIsShownAndNotRun) {
  ASSERT_GE(payloads().size(), 50u);
  int number = 0;
  for (const auto& payload : payloads()) {
    const int64_t batch = 2 + number / 4 % 2;
    // With the methods' own names rows are compared with their baseline; without them legends and colours are strange.
    for (const auto* dp : {"none", "ghost"}) {
      auto json = result_of(dp, batch);
      poison(json, payload, {"mode", "dp"});
      write_result(scratch_.path() / text("own/", number++, file_name(payload), ".json"), json);
    }
    auto json = result_of("ghost", batch);
    poison(json, payload, {});
    write_result(scratch_.path() / text("other/", number++, file_name(payload), ".json"), json);
    const Json failed{
        {"failed", true}, {"reason", payload}, {"log_key", payload}, {"arguments", {"--model", payload, payload}}};
    write_result(scratch_.path() / text("other/", number++, ".json"), failed);
  }
  write_result(scratch_.path() / "own/stages.json", with_stages());
  for (const auto* folder : {"own", "other"}) {
    expect_drawn(write_report(scratch_.path() / folder, text("out_", folder)));
    const auto page = io::content(text("out_", folder, "/report.html"));
    for (const auto* tag : {"<script>alert", "<img src=x"}) EXPECT_EQ(page.find(tag), std::string::npos) << tag;
    const auto lines = cells_of(io::content(text("out_", folder, "/results.csv")));
    EXPECT_GT(lines.size(), payloads().size());
    for (const auto& line : lines) {
      EXPECT_EQ(line.size(), lines.front().size());
      for (const auto& cell : line) {
        EXPECT_FALSE(is_formula(cell)) << cell;
        EXPECT_EQ(visible(cell), cell);
      }
    }
  }
  auto names = picture_names();
  std::erase(names, "plan_front");  // of plans: no result of a measurement has it
  EXPECT_EQ(drawn_, std::set<std::string>(names.begin(), names.end()));
}

TEST_F(HostileReport, NamesOfRunsAndLinesAreShownAndNotRun) {
  std::vector<fs::path> runs;
  std::vector<ReferenceLine> lines;
  for (const auto& payload : payloads()) {
    runs.push_back(scratch_.path() / text(runs.size(), file_name(payload)));
    fs::create_directories(runs.back());
    const Json step{
        {"step", 1}, {"not_private", {{"loss", 2.0}}}, {"epsilon", 1.0}, {"delta", 1e-5}, {"privacy_unit", payload}};
    std::ofstream(runs.back() / "metrics.jsonl") << step.dump() << "\n";
    std::ofstream(runs.back() / "recipe.toml") << "[dp\xff]\n"
                                               << payload << " = 1\nname = " << Json(payload).dump() << "\n";
    lines.push_back({.value = 1.0 + static_cast<double>(lines.size()), .words = payload});
  }
  expect_drawn(write_training_report(runs, lines, "out"));
  EXPECT_TRUE(drawn_.contains("training"));
  lines.push_back({.value = 1, .words = "\xff\xc3 broken UTF-8 `touch PWNED`"});
  expect_drawn(write_training_report(runs, lines, "out"));
}

// gnuplot reads back what was quoted: not one character is taken as something else.
TEST_F(HostileReport, GnuplotReadsQuotedTextAsItIs) {
  std::string script = "set print 'said'\n", expected;
  for (const auto& payload : payloads()) {
    script += text("print ", quoted_for_gnuplot(payload), "\nprint ", quoted_for_gnuplot(payload, "2"), "\n");
    const auto shown = visible(payload, 160);
    expected += text(shown, "\n", shown, shown.empty() ? "" : "\n", "2\n");
  }
  draw({.name = "quoted", .script = script}, scratch_.path());
  EXPECT_EQ(io::content(scratch_.path() / "said"), expected);
}

// gnuplot takes the text of a tic as a format: with one % too few it would show its number there.
TEST_F(HostileReport, TicsAreNoFormats) { EXPECT_EQ(tic_for_gnuplot(quoted_for_gnuplot("5%g%"), 3), "\"5%%g%%\" 3"); }

TEST_F(HostileReport, FilesOfTheHomeAreNotLoaded) {
  const char* home = std::getenv("HOME");
  const auto kept = home == nullptr ? ""s : home;
  ::setenv("HOME", scratch_.path().c_str(), 1);
  std::ofstream(scratch_.path() / ".gnuplot") << "system('touch PWNED')\n";
  draw({.name = "plain", .script = "plot x\n"}, scratch_.path() / "out");
  ::setenv("HOME", kept.c_str(), 1);
  EXPECT_TRUE(fs::exists(scratch_.path() / "out/plain.png"));
}

}  // namespace
}  // namespace shade::report
