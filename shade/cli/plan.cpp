// shade plan: memory, traffic, work and time of training steps of any size, before they are run.

#include <CLI/App.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "shade/accounting/accountant.h"
#include "shade/base/config.h"
#include "shade/base/csv.h"
#include "shade/base/files.h"
#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/bench_line.h"
#include "shade/cli/describe.h"
#include "shade/cli/help_formatter.h"
#include "shade/cli/matrix_verbs.h"
#include "shade/cli/plan_advice.h"
#include "shade/cli/planned.h"
#include "shade/cli/version.h"
#include "shade/plan/measured_error.h"
#include "shade/plan/privacy_plan.h"
#include "shade/plan/step_record.h"
#include "shade/plan/whole_run.h"

namespace shade::cli {
namespace {

// The part of shade plan about privacy: batch, steps and noise for records, epsilon and a compute budget.
class PlanPrivacy {
 public:
  PlanPrivacy() { config_.add("privacy", options_); }
  PlanPrivacy(const PlanPrivacy&) = delete;
  PlanPrivacy& operator=(const PlanPrivacy&) = delete;

  void add_to(CLI::App& app);  // must outlive its parse
  bool asked();                // any of its options was given

  // What is known of a step: tokens per record, model FLOPs of a record, and those that a GPU makes per second (0:
  // not known). Batch and steps of a whole run (0: none is planned) are taken where no option says otherwise.
  struct Step {
    int64_t length = 0;
    double flops_per_record = 0, flops_per_gpu_second = 0;
    int64_t batch = 0, steps = 0;
  };
  plan::PrivacyPlan plan(const Step& step) const;  // throws UsageError
  // Before anything is planned: the errors of plan() that don't depend on the step. Throws UsageError.
  void check(bool device_known, bool whole_run) const;

 private:
  plan::PrivacyQuestion question(const Step& step) const;

  plan::PrivacyPlanConfig options_;
  Config config_;
};

void PlanPrivacy::add_to(CLI::App& app) {
  for (auto& field : config_.fields())
    app.add_option_function<std::string>(
           join(field.spellings(), ","), [&field](const std::string& word) { field.set(word); }, field.help())
        ->group("privacy within a budget")
        ->type_name("");
}

bool PlanPrivacy::asked() {
  const auto& fields = config_.fields();
  return std::any_of(fields.begin(), fields.end(), [](const Field& field) { return field.given(); });
}

plan::PrivacyPlan PlanPrivacy::plan(const Step& step) const { return plan::plan_privacy(question(step)); }

void PlanPrivacy::check(bool device_known, bool whole_run) const {
  // What the step will say stands in as 1.
  question({.length = 1,
            .flops_per_record = 1,
            .flops_per_gpu_second = device_known ? 1.0 : 0.0,
            .batch = whole_run ? 1 : 0,
            .steps = whole_run ? 1 : 0})
      .require_valid();
}

plan::PrivacyQuestion PlanPrivacy::question(const Step& step) const {
  const bool budget = options_.budget_gpu_hours > 0 || options_.budget_flops > 0 || options_.steps > 0;
  const bool open = !budget && options_.expected_batch == 0;
  return {.records = options_.records,
          .target_epsilon = options_.target_epsilon,
          .delta = options_.delta,
          .batch = open ? step.batch : options_.expected_batch,
          .steps = open ? step.steps : options_.steps,
          .budget_gpu_hours = options_.budget_gpu_hours,
          .budget_flops = options_.budget_flops,
          .length = step.length,
          .flops_per_record = step.flops_per_record,
          .flops_per_gpu_second = step.flops_per_gpu_second};
}

// The part of shade plan about whole runs: days, failures, saves and price for a number of tokens.
class PlanRun {
 public:
  PlanRun() { config_.add("run", options_); }
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  void add_to(CLI::App& app);       // must outlive its parse
  void read(const PlanTime& time);  // throws UsageError
  bool asked() const { return options_.tokens > 0; }

  plan::WholeRun plan(const plan::Planned& row) const;  // of one with a time

 private:
  plan::WholeRunConfig options_;
  Config config_;
};

void PlanRun::add_to(CLI::App& app) {
  for (auto& field : config_.fields())
    app.add_option_function<std::string>(
           join(field.spellings(), ","), [&field](const std::string& word) { field.set(word); }, field.help())
        ->group("whole run")
        ->type_name("");
}

void PlanRun::read(const PlanTime& time) {
  const auto& fields = config_.fields();
  const bool any = std::any_of(fields.begin(), fields.end(), [](const Field& field) { return field.given(); });
  SHADE_REQUIRE(!any || asked(), "a whole run is planned for a number of tokens; add --tokens");
  SHADE_REQUIRE(!asked() || time.device(), "--tokens needs the time of a step; add --device-profile");
}

plan::WholeRun PlanRun::plan(const plan::Planned& row) const {
  SHADE_CHECK(row.time, "a row without a time");
  return plan::plan_whole_run({.tokens = options_.tokens,
                               .devices = row.ranks(),
                               .step = row.time->time.step,
                               .tokens_per_step = row.record.tokens,
                               .checkpoint = row.record.checkpoint,
                               .price_per_hour = options_.price_per_hour,
                               .device_mtbf = options_.device_mtbf,
                               .bytes_per_second = options_.write_bandwidth * 1e9,
                               .restart = options_.restart_time});
}

std::vector<plan::Planned> read_rows(const Arguments& words) {
  std::vector<plan::Planned> out;
  std::vector<std::string> notes;
  std::vector<std::vector<NoEffect>> unused;
  for (const auto& row : measure::expand(words)) {
    const auto stated = read_row(row, notes);
    unused.push_back(stated.unused);
    out.push_back(stated.planned());
  }
  require_used(unused, words);
  print_once(notes);
  return out;
}

std::string tera(double flops) { return text(significant(flops / 1e12), " TFLOP"); }

void print(const std::vector<plan::Planned>& rows) {
  const bool reserves =
      std::any_of(rows.begin(), rows.end(), [](const plan::Planned& one) { return one.record.reserved.count > 0; });
  std::vector<std::string> header{
      "experiment",    "ranks",    "peak memory per rank",    "between steps", "sent per step",
      "work per step", "launches", "largest part of the peak"};
  const bool resident =
      std::any_of(rows.begin(), rows.end(), [](const plan::Planned& one) { return one.resident().count > 0; });
  if (reserves) header.insert(header.begin() + 3, "reserved");
  if (resident) header.insert(header.begin() + 3, "process");
  Table table(header);
  std::string reasons;  // whole: a column would cut them
  for (const auto& planned : rows) {
    const auto& record = planned.record;
    if (!planned.refused.empty()) {
      std::vector<std::string> cells{planned.name, std::to_string(planned.ranks()), "refused"};
      cells.resize(header.size());
      table.add(std::move(cells));
      reasons += text(planned.name, ": ", planned.refused, "\n");
      continue;
    }
    double flops = 0;
    int64_t launches = 0;
    for (const auto& [name, sum] : record.phases) {
      flops += sum.flops;
      launches += sum.launches;
    }
    std::vector<std::string> cells{planned.name,
                                   std::to_string(planned.ranks()),
                                   to_string(record.peak.total),
                                   to_string(record.state.total),
                                   to_string(record.sent),
                                   tera(flops),
                                   std::to_string(launches),
                                   plan::largest_part(record)};
    if (reserves) cells.insert(cells.begin() + 3, to_string(record.reserved));
    if (resident) cells.insert(cells.begin() + 3, to_string(planned.resident()));
    table.add(std::move(cells));
  }
  std::printf("%s%s%s", table.str().c_str(), reasons.empty() ? "" : "\nrefused\n", visible_lines(reasons).c_str());
}

// What the published comparison of plans with runs found (docs/results/planning).
void print_error(const std::vector<plan::Planned>& rows, const PlanTime& time) {
  constexpr auto found = plan::kMeasuredError;
  std::string process;
  if (std::any_of(rows.begin(), rows.end(), [](const plan::Planned& one) { return one.resident().count > 0; }))
    process = text("; of the process below ", significant(found.process_90), " % for 90 %");
  std::printf("\nerror of predicted tensor memory in %d runs on a CPU: below %s %% for 95 %%, at most %s %%%s%s\n",
              found.runs, significant(found.tensors_95).c_str(), significant(found.tensors_most).c_str(),
              process.c_str(), time.target().accelerator() ? "; not compared with a GPU" : "");
}

void print_times(const std::vector<plan::Planned>& rows, const PlanTime& time) {
  if (const auto times = time.table(rows); !times.empty()) std::printf("\n%s", times.c_str());
}

using WholeRuns = std::vector<std::pair<std::string, plan::WholeRun>>;  // by row

WholeRuns plan_runs(const std::vector<plan::Planned>& rows, const PlanRun& run) {
  WholeRuns out;
  for (const auto& planned : rows)
    if (run.asked() && planned.time) out.emplace_back(planned.name, run.plan(planned));
  return out;
}

// Of the first row that can be run: what one of its records costs.
std::optional<plan::PrivacyPlan> plan_privacy(const std::vector<plan::Planned>& rows, const WholeRuns& runs,
                                              PlanPrivacy& privacy) {
  if (!privacy.asked()) return std::nullopt;
  const auto row = std::find_if(rows.begin(), rows.end(), [](const plan::Planned& one) { return one.refused.empty(); });
  if (row == rows.end()) return std::nullopt;
  const auto& record = row->record;
  const double samples = static_cast<double>(record.samples) / record.ranks;  // of this rank
  PlanPrivacy::Step step{.length = record.tokens / record.samples, .flops_per_record = record.model_flops / samples};
  if (row->time) step.flops_per_gpu_second = record.model_flops / row->time->time.step.count();
  if (!runs.empty()) std::tie(step.batch, step.steps) = std::tie(record.samples, runs.front().second.steps);
  return privacy.plan(step);
}

// Steps that a failure makes a run repeat on accelerators count again: their expected number.
std::optional<privacy::Spent> spent_with_failures(const std::optional<plan::PrivacyPlan>& budget,
                                                  const WholeRuns& runs) {
  if (!budget || runs.empty()) return std::nullopt;
  const auto& [chosen, run] = std::tie(budget->chosen, runs.front().second);
  const double share = run.repeated_steps / static_cast<double>(run.steps);
  const auto steps = static_cast<int64_t>(std::ceil(static_cast<double>(chosen.steps) * (1 + share)));
  const privacy::Steps all{{.sample_rate = chosen.sample_rate, .noise_multiplier = chosen.sigma}, steps};
  return privacy::spent(privacy::Accountant::prv, {&all, 1}, budget->question.delta);
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

void write_csv(const std::string& file, const std::vector<plan::Planned>& rows) {
  std::string out =
      "name,model,dp,shard,seq_length,batch_size,num_ranks,peak_memory_mb,reserved_memory_mb,state_memory_mb,sent_"
      "bytes,flops,model_flops,"
      "launches,avg_time_ms,tokens_per_second,refused\n";
  for (const auto& planned : rows) {
    const auto json = planned.json();
    const auto cell = [&](const char* key) {
      if (!json.contains(key)) return std::string();
      const auto& value = json.at(key);
      return csv_cell(value.is_string() ? value.get<std::string>() : value.dump());
    };
    std::vector<std::string> cells;
    for (const auto* key : {"name", "model", "dp", "shard", "seq_length", "batch_size", "num_ranks", "peak_memory_mb",
                            "reserved_memory_mb", "state_memory_mb"})
      cells.push_back(cell(key));
    cells.push_back(planned.refused.empty() ? json.at("communication").at("bytes").dump() : "");
    for (const auto* key : {"flops", "model_flops", "launches", "avg_time_ms", "tokens_per_second", "reason"})
      cells.push_back(cell(key));
    out += join(cells, ",") + "\n";
  }
  write_output(file, out);
}

struct Plan final : Invocation {
  const std::string example =
      "shade plan --model llama3-8b --dp none,flash,auto --shard zero2,zero3 --seq 1024,2048 --batch-size 2 "
      "--ranks 8,64 --device-profile h100-80g\n"
      "  shade plan --model llama3-8b --dp any --dtype bf16 --ranks 8 --device-profile h100-80g --advise\n"
      "  shade plan --model llama3-8b --shard hsdp --replicate 128 --seq 8192 --dtype bf16 --checkpointing block "
      "--ranks "
      "1024 --device-profile h100-80g --tokens 15e12 --price-per-hour 2";
  CLI::App app{
      "Memory, traffic, work and time of training steps of any size, before they are run: the real step on tensors "
      "without values, in a simulated world of up to 16384 ranks.",
      "shade plan"};
  std::string json_file, csv_file, log_level = "warning";
  PlanTime time;
  PlanAdvice advice;
  PlanPrivacy privacy;
  PlanRun whole_run;

  Plan();
  Description description() const override { return describe_with_bench(app, example); }
  int run(const Arguments& arguments) override;

 private:
  int advise(const Arguments& words, const Arguments& arguments);
  int plan_rows(const Arguments& words, const Arguments& arguments);
  void write_result(Json out, const Arguments& arguments) const;
};

Plan::Plan() {
  use_help(app);
  app.allow_extras();
  time.add_to(app);
  advice.add_to(app);
  privacy.add_to(app);
  whole_run.add_to(app);
  app.add_option("--json", json_file,
                 "file that the rows are also written to as JSON; -: standard output, with everything else on standard "
                 "error")
      ->type_name("FILE");
  app.add_option("--csv", csv_file, "file that the rows are also written to as CSV")->type_name("FILE");
  add_log_level(app, log_level);
}

}  // namespace

std::unique_ptr<Invocation> declare_plan() { return std::make_unique<Plan>(); }

int Plan::run(const Arguments& arguments) {
  app.footer(bench_footer(app, example, " --ranks are simulated, not started."));
  if (const auto status = parse_words(app, arguments)) return *status;
  log::set_level(log::parse_level(log_level));
  require_different("--json", json_file, "--csv", csv_file);
  json_file = json_target(json_file);
  if (!csv_file.empty()) check_output(csv_file);
  time.read();
  advice.read(time);
  whole_run.read(time);
  if (privacy.asked() && !advice.asked()) privacy.check(time.device().has_value(), whole_run.asked());
  std::vector<std::string> implied;
  const auto words = bench_words(app.remaining(), implied);
  SHADE_REQUIRE(!words.empty(),
                "what is to be planned? Give a model and how it is trained, e.g. --model llama3-8b --dp auto --shard "
                "zero3 --ranks 8");
  print_once(implied);
  return advice.asked() ? advise(words, arguments) : plan_rows(words, arguments);
}

void Plan::write_result(Json out, const Arguments& arguments) const {
  out["environment"] = origin("plan", arguments, c10::kCPU);
  if (time.device()) {
    out["device_profile"] = time.device()->name;
    out["device"] = time.device()->json();
  }
  write_json(json_file, out);
}

int Plan::advise(const Arguments& words, const Arguments& arguments) {
  SHADE_REQUIRE(!privacy.asked() && !whole_run.asked(),
                "--advise is about memory and the time of a step; ask for a privacy budget or a whole run in "
                "another plan");
  const auto all = with_methods(words);
  std::vector<StatedRow> rows;
  std::vector<std::string> notes;
  for (const auto& row : measure::expand(all)) rows.push_back(read_row(row, notes));
  const bool found = advice.run(rows, /*any_method=*/all != words, time);
  if (!csv_file.empty()) write_output(csv_file, advice.csv());
  if (!json_file.empty()) write_result(advice.json(), arguments);
  return found ? 0 : 1;
}

int Plan::plan_rows(const Arguments& words, const Arguments& arguments) {
  auto rows = read_rows(words);
  size_t refused = 0;
  {
    Progress progress("plan", static_cast<int64_t>(rows.size()), rows.size() > 1);
    for (auto& planned : rows) {
      planned.make(time.target(), json_file.empty() ? plan::Planned::Events::drop : plan::Planned::Events::timeline);
      if (!planned.refused.empty()) ++refused;
      progress.advance(planned.name);
    }
  }
  print(rows);
  if (rows.size() == 1 && refused == 0) print_parts(rows.front().record);
  print_times(rows, time);
  if (refused < rows.size()) print_error(rows, time);
  const auto runs = plan_runs(rows, whole_run);
  if (!runs.empty()) std::printf("\n%s", table_of(runs).c_str());
  const auto budget = plan_privacy(rows, runs, privacy);
  if (budget) std::printf("\n%s", budget->str().c_str());
  const auto with_failures = spent_with_failures(budget, runs);
  if (with_failures)
    std::printf(
        "\nwith the number of steps that failures are expected to repeat, which count again: epsilon %s at delta "
        "%s; with more failures than expected it is more\n",
        rounded_up(with_failures->epsilon).c_str(), significant(budget->question.delta).c_str());
  if (!csv_file.empty()) write_csv(csv_file, rows);
  if (!json_file.empty()) {
    Json out{{"rows", Json::array()}};
    if (budget) out["privacy"] = budget->json();
    if (with_failures) out["privacy"]["epsilon_with_expected_failures"] = with_failures->epsilon;
    for (const auto& planned : rows) out["rows"].push_back(planned.json());
    for (const auto& [name, whole] : runs)
      for (auto& row : out["rows"])
        if (row["name"] == name) row["run"] = whole.json();
    write_result(std::move(out), arguments);
  }
  return refused == 0 ? 0 : 1;
}

}  // namespace shade::cli
