// shade plan: memory, traffic, work and time of training steps of any size, before they are run.
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "shade/base/csv.h"
#include "shade/base/log.h"
#include "shade/base/output_file.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/base/without_folders.h"
#include "shade/cli/bench_line.h"
#include "shade/cli/describe.h"
#include "shade/cli/help_formatter.h"
#include "shade/cli/matrix_verbs.h"
#include "shade/cli/origin.h"
#include "shade/cli/plan_privacy.h"
#include "shade/cli/plan_time.h"
#include "shade/measure/matrix.h"
#include "shade/plan/dry_run.h"
#include "shade/plan/record_json.h"

namespace shade::cli {
namespace {

// One row of the matrix: what was asked for, and what a dry run of it found.
struct Planned {
  measure::MatrixRow row;
  measure::Experiment experiment;
  int ranks = 1;
  plan::StepRecord record;
  std::optional<PlanTime::Row> time;  // with a device profile
  std::string refused;                // why it can't be run at all; empty: it can

  Json json() const {
    const auto& [bench, shard, dp] = std::tie(experiment.bench, experiment.shard, experiment.dp);
    Json out{{"name", row.name},
             {"model", without_folders(bench.model)},
             {"mode", experiment.mode},
             {"dp", to_string(dp.dp)},
             {"shard", to_string(shard.shard)},
             {"seq_length", bench.seq_length},
             {"batch_size", bench.batch_size},
             {"grad_accum", bench.grad_accum},
             {"num_ranks", ranks}};
    if (!refused.empty()) {
      out.update({{"failed", true}, {"reason", refused}});
      return out;
    }
    out.update(plan::to_json(record));
    if (time)
      out.update({{"avg_time_ms", Millis(time->time.step).count()},
                  {"tokens_per_second", time->tokens_per_second},
                  {"fits", time->fits},
                  {"time", time->json()}});
    return out;
  }
};

// Ranks of a plan are not started: there may be more of them than processes of a host.
constexpr int kMostRanks = 16384;

int ranks_of(const measure::MatrixRow& row) {
  int ranks = 1;
  for (size_t i = 0; i + 1 < row.arguments.size(); ++i) {
    if (row.arguments[i] != "--ranks") continue;
    const auto& word = row.arguments[i + 1];
    const auto number = parse_integer(word);
    SHADE_REQUIRE(number && *number >= 1 && *number <= kMostRanks, "--ranks ", word, "; expected a number from 1 to ",
                  kMostRanks);
    ranks = static_cast<int>(*number);
  }
  return ranks;
}

Arguments without_ranks(const Arguments& words) {
  Arguments out;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "--ranks")
      ++i;
    else
      out.push_back(words[i]);
  return out;
}

std::vector<Planned> read_rows(const Arguments& words) {
  std::vector<Planned> out;
  std::vector<std::string> notes;
  for (auto& row : measure::expand(words)) {
    Planned planned{.row = row, .ranks = ranks_of(row)};
    BenchLine line;
    line.planned_ranks = planned.ranks;
    SHADE_REQUIRE(!line.parse(without_ranks(row.arguments)), "--help stands between the options of a matrix");
    planned.experiment = line.experiment;
    notes.insert(notes.end(), line.notes.begin(), line.notes.end());
    out.push_back(std::move(planned));
  }
  print_once(notes);
  return out;
}

// As `shade bench` would start it: some kernels of a CPU have scratch memory for each thread.
void use_planned_threads(const Planned& planned) {
  static const int all = at::get_num_threads();
  const auto wanted = static_cast<int>(planned.experiment.bench.threads);
  at::set_num_threads(wanted > 0 ? wanted : planned.ranks > 1 ? 1 : all);
}

// The events of a row are needed for its time alone; kept, those of many rows would fill the memory.
void make(Planned& planned, const PlanTime& time) {
  use_planned_threads(planned);
  planned.record = plan::dry_run(planned.experiment, {.ranks = planned.ranks, .accelerator = time.accelerator()});
  if (time.device()) {
    planned.time = time.predict(planned.row.name, planned.record);
    planned.time->time.events = {};
  }
  planned.record.events = {};
}

std::string tera(double flops) { return text(significant(flops / 1e12), " TFLOP"); }

void print(const std::vector<Planned>& rows) {
  Table table({"experiment", "ranks", "peak memory per rank", "between steps", "sent per step", "work per step",
               "launches", "what makes the peak"});
  std::string reasons;  // whole: a column would cut them
  for (const auto& planned : rows) {
    const auto& record = planned.record;
    if (!planned.refused.empty()) {
      table.add({planned.row.name, std::to_string(planned.ranks), "refused", "", "", "", "", ""});
      reasons += text(planned.row.name, ": ", planned.refused, "\n");
      continue;
    }
    double flops = 0;
    int64_t launches = 0;
    for (const auto& [name, sum] : record.phases) {
      flops += sum.flops;
      launches += sum.launches;
    }
    table.add({planned.row.name, std::to_string(planned.ranks), to_string(record.peak.total),
               to_string(record.state.total), to_string(record.sent), tera(flops), std::to_string(launches),
               plan::owner_text(record.owner)});
  }
  std::printf("%s%s%s", table.str().c_str(), reasons.empty() ? "" : "\nrefused\n", visible_lines(reasons).c_str());
}

void print_times(const std::vector<Planned>& rows, const PlanTime& time) {
  std::vector<PlanTime::Row> times;
  for (const auto& planned : rows)
    if (planned.time) times.push_back(*planned.time);
  if (!times.empty()) std::printf("\n%s", time.table(times).c_str());
}

// Of the first row that can be run: what one of its records costs.
std::optional<plan::PrivacyPlan> plan_privacy(const std::vector<Planned>& rows, PlanPrivacy& privacy) {
  if (!privacy.asked()) return std::nullopt;
  const auto row = std::find_if(rows.begin(), rows.end(), [](const Planned& one) { return one.refused.empty(); });
  if (row == rows.end()) return std::nullopt;
  const auto& record = row->record;
  const double samples = static_cast<double>(record.samples) / record.ranks;  // of this rank
  PlanPrivacy::Step step{.length = record.tokens / record.samples, .flops_per_record = record.model_flops / samples};
  if (row->time) step.flops_per_gpu_second = record.model_flops / row->time->time.step.count();
  return privacy.plan(step);
}

// Of one row alone: where its memory and its bytes go.
void print_parts(const plan::StepRecord& record) {
  Table memory({"memory at the peak", "", "at its own highest moment"});
  for (const auto& [name, kind] : names_of(MemoryKind{}))
    if (record.most.of(kind).count > 0)
      memory.add({std::string(name), to_string(record.peak.of(kind)), to_string(record.most.of(kind))});
  std::printf("\n%s", memory.str().c_str());
  if (!record.traffic.empty()) {
    Table traffic({"collective", "axis", "per step", "sent per rank"});
    for (const auto& total : record.traffic)
      traffic.add({to_string(total.kind), total.axis, std::to_string(total.count), to_string(total.wire)});
    std::printf("\n%s", traffic.str().c_str());
  }
  Table phases({"phase", "launches", "work", "bytes"});
  for (const auto& [name, sum] : record.phases)
    phases.add({name.empty() ? "other" : name, std::to_string(sum.launches), tera(sum.flops),
                to_string(Bytes{std::llround(sum.bytes)})});
  std::printf("\n%s", phases.str().c_str());
}

void write_csv(const std::string& file, const std::vector<Planned>& rows) {
  std::string out =
      "name,model,dp,shard,seq_length,batch_size,num_ranks,peak_memory_mb,state_memory_mb,sent_bytes,flops,model_flops,"
      "launches,avg_time_ms,tokens_per_second,refused\n";
  for (const auto& planned : rows) {
    const auto json = planned.json();
    const auto cell = [&](const char* key) {
      if (!json.contains(key)) return std::string();
      const auto& value = json.at(key);
      return csv_cell(value.is_string() ? value.get<std::string>() : value.dump());
    };
    std::vector<std::string> cells;
    for (const auto* key :
         {"name", "model", "dp", "shard", "seq_length", "batch_size", "num_ranks", "peak_memory_mb", "state_memory_mb"})
      cells.push_back(cell(key));
    cells.push_back(planned.refused.empty() ? json.at("communication").at("bytes").dump() : "");
    for (const auto* key : {"flops", "model_flops", "launches", "avg_time_ms", "tokens_per_second", "reason"})
      cells.push_back(cell(key));
    out += join(cells, ",") + "\n";
  }
  write_output(file, out);
}

}  // namespace

int run_plan(const Arguments& arguments) {
  const std::string example =
      "shade plan --model llama3-8b --dp none,flash,auto --shard zero2,zero3 --seq 1024,2048 --batch-size 2 "
      "--ranks 8,64 --device-profile h100-80g";
  CLI::App app(
      "Memory, traffic, work and time of training steps of any size, before they are run: the real step on tensors "
      "without values, in a simulated world of up to 16384 ranks.",
      "shade plan");
  use_help(app);
  app.allow_extras();
  std::string json_file, csv_file, log_level = "warning";
  PlanTime time;
  time.add_to(app);
  PlanPrivacy privacy;
  privacy.add_to(app);
  app.add_option("--json", json_file,
                 "file that the rows are also written to as JSON; -: standard output, with everything else on standard "
                 "error")
      ->type_name("FILE");
  app.add_option("--csv", csv_file, "file that the rows are also written to as CSV")->type_name("FILE");
  add_log_level(app, log_level);
  if (asks_to_describe(arguments)) throw describe_with_bench(app, example);
  app.footer(bench_footer(app, example, " --ranks are simulated, not started."));
  if (const auto status = parse_words(app, arguments)) return *status;
  log::set_level(log::parse_level(log_level));
  json_file = json_target(json_file);
  if (!csv_file.empty()) check_output(csv_file);
  time.read();
  const auto words = bench_words(app.remaining());
  SHADE_REQUIRE(!words.empty(),
                "what is to be planned? Give a model and how it is trained, e.g. --model llama3-8b --dp auto --shard "
                "zero3 --ranks 8");
  auto rows = read_rows(words);
  size_t refused = 0;
  {
    Progress progress("plan", static_cast<int64_t>(rows.size()), rows.size() > 1);
    for (auto& planned : rows) {
      try {
        make(planned, time);
      } catch (const UsageError& fault) {
        planned.refused = fault.what();
        ++refused;
      }
      progress.advance(planned.row.name);
    }
  }
  print(rows);
  if (rows.size() == 1 && refused == 0) print_parts(rows.front().record);
  print_times(rows, time);
  const auto budget = plan_privacy(rows, privacy);
  if (budget) std::printf("\n%s", budget->str().c_str());
  if (!csv_file.empty()) write_csv(csv_file, rows);
  if (!json_file.empty()) {
    Json out{{"rows", Json::array()}, {"environment", origin("plan", arguments, c10::kCPU)}};
    if (time.device()) out["device_profile"] = time.device()->name;
    if (budget) out["privacy"] = budget->json();
    for (const auto& planned : rows) out["rows"].push_back(planned.json());
    write_json(json_file, out);
  }
  return refused == 0 ? 0 : 1;
}

}  // namespace shade::cli
