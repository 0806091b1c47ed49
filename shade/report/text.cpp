#include "shade/report/text.h"

#include <algorithm>

#include "shade/base/csv.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"

namespace shade::report {
namespace {

constexpr const char* kNoCell = "-";

std::string interval_text(const Results& results, const ResultRow& row) {
  const auto [low, high] = results.range_ms(row);
  return row.planned_for.empty() && high > low ? text(time_text(low), " .. ", time_text(high)) : kNoCell;
}

// "+31.0 % (+25.0 % to +38.0 %)"; of a row that is compared with another strategy, with the name of that.
std::string cost_text(const ResultRow& row, const ResultRow& reference) {
  const auto words = time_cost_text(row, reference);
  if (row.is_private()) return words;
  return text(words, " over ", row.shard != reference.shard ? reference.shard : reference.name);
}

std::vector<std::string> table_line(const Results& results, const ResultRow& row) {
  const auto* two = under_zero2(results, row);
  const auto* reference = compared_with(results, row);
  if (reference == two) reference = nullptr;  // has columns of its own
  const auto memory_over = [&](const ResultRow* other) {
    return other == nullptr ? kNoCell : signed_percent(100 * (row.peak_mb / other->peak_mb - 1));
  };
  return {row.mode,
          row.group.empty() ? kNoCell : row.group,
          memory_text(row.peak_mb),
          time_text(row.time_ms),
          interval_text(results, row),
          row.tokens_per_second > 0 ? significant(row.tokens_per_second) : kNoCell,
          row.moves_bytes() ? time_text(row.waits_ms()) : kNoCell,
          reference != nullptr ? cost_text(row, *reference) : kNoCell,
          memory_over(reference),
          two != nullptr ? time_cost_text(row, *two) : kNoCell,
          memory_over(two)};
}

// Without columns that no row has a value in.
std::string rows_table(const Results& results) {
  const std::vector<std::string> header{
      "mode",  "shape", "peak memory", "median step",     results.range_text(), results.throughput_unit(),
      "waits", "time",  "memory",      "time over zero2", "memory over zero2"};
  std::vector<std::vector<std::string>> lines;
  for (const auto& row : results.rows) lines.push_back(table_line(results, row));
  std::vector<size_t> shown;
  for (size_t i = 0; i < header.size(); ++i)
    if (std::any_of(lines.begin(), lines.end(), [&](const auto& line) { return line[i] != kNoCell; }))
      shown.push_back(i);
  const auto chosen = [&](const std::vector<std::string>& line) {
    std::vector<std::string> out;
    for (const auto i : shown) out.push_back(line[i]);
    return out;
  };
  Table table(chosen(header));
  for (const auto& line : lines) table.add(chosen(line));
  return table.str();
}

// Every digit that was measured: this one is for programs.
std::string exact(double value) { return Json(value).dump(); }
std::string exact(const std::optional<double>& value) { return value ? exact(*value) : ""; }

// Names over all rows, in the order in which they first appear.
std::vector<std::string> names_in(const Results& results, Amounts ResultRow::* amounts) {
  std::vector<std::string> out;
  for (const auto& row : results.rows)
    for (const auto& [name, value] : row.*amounts)
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  return out;
}

std::string cell(const Amounts& amounts, const std::string& name) {
  for (const auto& [key, value] : amounts)
    if (key == name) return exact(value);
  return "";
}

using Line = std::vector<std::pair<std::string, std::string>>;

Line figures(const Results& results, const ResultRow& row) {
  Line out;
  for (const auto& figure : catalog::kFigures) {
    std::string name(figure.key);
    std::replace(name.begin(), name.end(), '.', '_');
    out.emplace_back(std::move(name), exact(figure.of(row)));
  }
  const auto cost = cost_of(results, row);
  for (const auto& [key, column, member] : kCosts) out.emplace_back(column, cost ? exact((*cost).*member) : "");
  return out;
}

Line csv_line(const Results& results, const ResultRow& row) {
  Line line{{"file", row.file},
            {"status", row.failed() ? "failed" : "ok"},
            {"mode", row.mode},
            {"model", row.model},
            {"model_name", row.model_name},
            {"preset", row.preset},
            {"shard", row.shard},
            {"seq_length", std::to_string(row.seq_length)},
            {"batch_size", std::to_string(row.batch_size)},
            {"grad_accum", std::to_string(row.grad_accum)},
            {"num_ranks", std::to_string(row.ranks)},
            {"group", row.group}};
  for (auto& [name, value] : figures(results, row)) line.emplace_back(name, row.failed() ? "" : value);
  for (const auto& name : names_in(results, &ResultRow::breakdown_mb))
    line.emplace_back(name + "_mb", cell(row.breakdown_mb, name));
  for (const auto& name : names_in(results, &ResultRow::highest_mb))
    line.emplace_back("max_" + name + "_mb", cell(row.highest_mb, name));
  std::vector<std::string> ranks;
  for (const double mb : row.rank_peaks_mb) ranks.push_back(exact(mb));
  line.emplace_back("peak_memory_by_rank_mb", join(ranks, " "));
  for (const auto& name : names_in(results, &ResultRow::phases_ms))
    line.emplace_back("phase_" + name + "_ms", cell(row.phases_ms, name));
  line.emplace_back("log_key", row.log_key);
  line.emplace_back("reason", row.failure);
  return line;
}

std::string front_table(const Advice& advice) {
  if (advice.recommended.empty())
    return text("Of ", advice.rows.size(), " settings none stays within ", memory_text(advice.limit_mb), ".\n\n");
  Table table({"settings on the front", "peak memory", advice.timed ? "time per sample" : "work per sample",
               advice.timed ? "device time per sample" : "sent per sample"});
  for (const auto& row : advice.rows) {
    if (!row.on_front()) continue;
    table.add({row.name, memory_text(row.peak_mb),
               advice.timed ? time_text(row.time) : text(significant(row.time / 1e12), " TFLOP"),
               advice.timed ? time_text(row.cost) : memory_text(row.cost / 1024 / 1024)});
  }
  return text(table.str(), "\nOf ", advice.rows.size(), " settings within ", memory_text(advice.limit_mb),
              " per rank. Recommended: ", advice.recommended, ".\n\n");
}

std::string joined(const Line& line, std::string Line::value_type::* part) {
  std::string out;
  for (const auto& column : line) out += (out.empty() ? "" : ",") + csv_cell(column.*part);
  return out + "\r\n";
}

}  // namespace

std::string summary_of(const Results& results, const std::vector<Finding>& findings) {
  std::string out;
  for (const auto& [about, words, is_doubt] : findings)
    if (is_doubt) out += text(about, ": ", words, "\n\n");
  if (!results.common.empty()) out += text("All rows: ", results.common, ".\n\n");
  if (!results.rows.empty()) {
    out += text(rows_table(results),
                "\npeak memory: tensors of the largest rank. waits: for traffic, in a step. time, memory: over ",
                results.baseline(),
                " at the same shape, or over what is named; over zero2: against the row that differs in the strategy "
                "alone. Time is the ratio of the medians, in parentheses its 99 % "
                "interval.\n\n");
  }
  for (const auto& advice : results.advice) out += front_table(advice);
  for (const auto& [about, words, is_doubt] : findings)
    if (!is_doubt) out += text(about, ": ", words, "\n");
  for (const auto& [file, reason] : results.broken) out += text("Broken: ", file, ": ", reason, "\n");
  for (const auto& [file, reason] : results.foreign) out += text("Skipped: ", file, ": ", reason, "\n");
  return visible_lines(out);  // it is printed
}

std::string csv_of(const Results& results) {
  std::string out;
  for (const auto* rows : {&results.rows, &results.failures}) {
    for (const auto& row : *rows) {
      const auto line = csv_line(results, row);
      if (out.empty()) out = joined(line, &Line::value_type::first);
      out += joined(line, &Line::value_type::second);
    }
  }
  return out;
}

}  // namespace shade::report
