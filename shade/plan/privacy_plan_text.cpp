// A plan of privacy as a person and as a program read it.
#include <cmath>

#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/plan/privacy_plan.h"

namespace shade::plan {
namespace {

std::string count(double value) { return value < 1e7 ? std::to_string(std::llround(value)) : significant(value); }

std::string mark(const PrivacyRow& row) {
  std::vector<std::string> words;
  if (row.chosen) words.emplace_back("the plan");
  if (row.knee) words.emplace_back("knee");
  if (row.beyond_knee) words.emplace_back("beyond the knee");
  return join(words, ", ");
}

// "1.19e-06", "0.0451"; FLOPs and hours only where they are known.
std::string table(const std::vector<PrivacyRow>& rows, const PrivacyRow& chosen, const PrivacyQuestion& question) {
  std::vector<std::string> header{"batch", "steps", "sample rate", "sigma", "r", "r / plan's", "cost / plan's"};
  const bool flops = question.flops_per_record > 0, hours = question.flops_per_gpu_second > 0 && flops;
  if (flops) header.emplace_back("FLOPs");
  if (hours) header.emplace_back("GPU-hours");
  header.emplace_back("");
  Table out(header);
  for (const auto& row : rows) {
    std::vector<std::string> cells{std::to_string(row.batch),
                                   std::to_string(row.steps),
                                   significant(row.sample_rate),
                                   rounded_up(row.sigma),
                                   significant(row.ratio),
                                   significant(row.ratio / chosen.ratio),
                                   significant(row.records_read / chosen.records_read)};
    if (flops) cells.push_back(significant(row.flops));
    if (hours) cells.push_back(significant(row.gpu_hours));
    cells.push_back(mark(row));
    out.add(std::move(cells));
  }
  return out.str();
}

Json row_json(const PrivacyRow& row) {
  Json out{{"batch", row.batch},
           {"steps", row.steps},
           {"sample_rate", row.sample_rate},
           {"sigma", row.sigma},
           {"epsilon", row.epsilon},
           {"noise_batch_ratio", row.ratio},
           {"records_read", row.records_read}};
  if (row.flops > 0) out["flops"] = row.flops;
  if (row.gpu_hours > 0) out["gpu_hours"] = row.gpu_hours;
  out["knee"] = row.knee;
  out["beyond_knee"] = row.beyond_knee;
  out["chosen"] = row.chosen;
  return out;
}

Json rows_json(const std::vector<PrivacyRow>& rows) {
  auto out = Json::array();
  for (const auto& row : rows) out.push_back(row_json(row));
  return out;
}

}  // namespace

std::string PrivacyPlan::str() const {
  const double epochs = chosen.records_read / static_cast<double>(question.records);
  std::string out = text("epsilon ", rounded_up(chosen.epsilon), " at delta ", question.delta, " for ",
                         question.records, " records\n  expected batch ", chosen.batch, ", ", chosen.steps,
                         " steps, sigma ", rounded_up(chosen.sigma), ", sample rate ", significant(chosen.sample_rate),
                         "\n  noise-batch ratio r = sigma / batch = ", significant(chosen.ratio), "\n  ",
                         count(chosen.records_read), " records read, ", significant(epochs), " epochs");
  if (question.length > 0)
    out += text(", ", significant(chosen.records_read * static_cast<double>(question.length)), " tokens");
  if (chosen.flops > 0) out += text(", ", significant(chosen.flops), " model FLOPs");
  if (chosen.gpu_hours > 0) out += text(", ", significant(chosen.gpu_hours), " GPU-hours");
  out += "\n\nWhat a lower r costs, at ";
  out += text(chosen.steps, " steps\n", table(by_cost, chosen, question));
  if (halving && chosen.gpu_hours > 0)
    out += text("halving r costs ", significant(*halving), " times as much: ", significant(*halving * chosen.gpu_hours),
                " GPU-hours\n");
  else if (halving)
    out += text("halving r costs ", significant(*halving), " times as much\n");
  else
    out += text("r can't be halved in ", chosen.steps, " steps: with all records in every batch it is ",
                significant(floor), "\n");
  out += text("\nThe same cost divided otherwise\n", table(same_cost, chosen, question));
  out += "\nLaw\n";
  for (const auto& line : law) out += "  - " + line + "\n";
  out += "Practice\n";
  for (const auto& line : practice) out += "  - " + line + "\n";
  return out;
}

Json PrivacyPlan::json() const {
  Json out{{"records", question.records},
           {"target_epsilon", question.target_epsilon},
           {"delta", question.delta},
           {"privacy_unit", to_string(question.unit)},
           {"accountant", "prv"},
           {"plan", row_json(chosen)},
           {"by_cost", rows_json(by_cost)},
           {"same_cost", rows_json(same_cost)},
           {"lowest_ratio", floor},
           {"cost_of_half_ratio", halving ? Json(*halving) : Json(nullptr)},
           {"law", law},
           {"practice", practice}};
  if (question.length > 0) out["length"] = question.length;
  if (question.budget_gpu_hours > 0) out["budget_gpu_hours"] = question.budget_gpu_hours;
  if (question.budget_flops > 0) out["budget_flops"] = question.budget_flops;
  return out;
}

}  // namespace shade::plan
