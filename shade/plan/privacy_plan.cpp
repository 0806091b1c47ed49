#include "shade/plan/privacy_plan.h"

#include <algorithm>
#include <cmath>

#include "shade/accounting/calibrate.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"

namespace shade::plan {
namespace {

// Practice, not law: fewer steps than this are seldom enough to train a model, whatever their noise.
constexpr int64_t kFewSteps = 1000;
constexpr int64_t kMostRecords = 1'000'000'000'000'000;  // beyond it doubling a batch would overflow
const double kKneeFactor = std::sqrt(2.0);

// Sigmas for rows of one question. prv decides; rdp, a hundred times as fast, says where to look.
class Sigmas {
 public:
  explicit Sigmas(const PrivacyQuestion& question) : question_(question) {}

  // To the accuracy of privacy::calibrate: what a run with this plan would use.
  PrivacyRow exact(int64_t batch, int64_t steps) {
    const auto found =
        privacy::calibrate(privacy::Accountant::prv, run(batch, steps), question_.target_epsilon, question_.delta);
    return row(batch, steps, found.sigma, found.spent.epsilon);
  }

  // Epsilon within a relative 2e-3 below the target.
  PrivacyRow near(int64_t batch, int64_t steps) {
    auto tried = run(batch, steps);
    const double target = question_.target_epsilon, delta = question_.delta;
    const double by_rdp = privacy::calibrate(privacy::Accountant::rdp, tried, target, delta).sigma;
    const auto epsilon = [&](privacy::Accountant accountant, double sigma) {
      tried.mechanism.noise_multiplier = sigma;
      return privacy::spent(accountant, {&tried, 1}, delta).epsilon;
    };
    double sigma = std::clamp(by_rdp * share_of_rdp_, privacy::kMinNoise, privacy::kMaxNoise);
    double slope =
        std::log(epsilon(privacy::Accountant::rdp, by_rdp * 1.02) / epsilon(privacy::Accountant::rdp, by_rdp)) /
        std::log(1.02);
    double before_sigma = 0, before = 0;
    for (int i = 0; i < 8 && slope < 0; ++i) {
      const double found = epsilon(privacy::Accountant::prv, sigma);
      if (found <= target && (found >= target * (1 - 2e-3) || sigma <= privacy::kMinNoise)) {
        share_of_rdp_ = sigma / by_rdp;
        return row(batch, steps, sigma, found);
      }
      if (found <= 0) break;
      if (before_sigma > 0) slope = std::log(found / before) / std::log(sigma / before_sigma);
      before_sigma = sigma;
      before = found;
      sigma = std::clamp(sigma * std::exp(std::log(target * (1 - 1e-3) / found) / slope), privacy::kMinNoise,
                         privacy::kMaxNoise);
    }
    return exact(batch, steps);
  }

  // Twice the batch of the one before lowered r by sqrt(2) at least.
  bool beyond_knee(int64_t batch, int64_t steps) {
    if (batch < 2) return false;
    return near(batch / 2, steps).ratio < kKneeFactor * near(batch, steps).ratio;
  }

 private:
  privacy::Steps run(int64_t batch, int64_t steps) const {
    return {{.sample_rate = std::min(1.0, static_cast<double>(batch) / static_cast<double>(question_.records))}, steps};
  }

  PrivacyRow row(int64_t batch, int64_t steps, double sigma, double epsilon) const {
    PrivacyRow out{.batch = batch, .steps = steps, .sigma = sigma, .epsilon = epsilon};
    out.sample_rate = run(batch, steps).mechanism.sample_rate;
    out.ratio = sigma / static_cast<double>(batch);
    out.records_read = static_cast<double>(batch) * static_cast<double>(steps);
    out.flops = out.records_read * question_.flops_per_record;
    if (question_.flops_per_gpu_second > 0) out.gpu_hours = out.flops / question_.flops_per_gpu_second / 3600;
    return out;
  }

  const PrivacyQuestion& question_;
  double share_of_rdp_ = 0.97;
};

// Records that the budget pays for, over all steps; 0: no budget was stated.
double affordable(const PrivacyQuestion& question) {
  if (question.budget_flops > 0) return question.budget_flops / question.flops_per_record;
  if (question.budget_gpu_hours > 0)
    return question.budget_gpu_hours * 3600 * question.flops_per_gpu_second / question.flops_per_record;
  return 0;
}

int64_t whole(double value, int64_t most) {
  return static_cast<int64_t>(std::clamp(std::floor(value), 1.0, static_cast<double>(most)));
}

// The largest power of two that is not beyond the knee, or all records: elasticities fall with the batch, so halves of
// the range can be left out.
int64_t knee_batch(Sigmas& sigmas, int64_t records, int64_t steps) {
  int low = 0, high = 0;
  while ((int64_t{2} << high) <= records) ++high;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (sigmas.beyond_knee(int64_t{1} << middle, steps))
      high = middle - 1;
    else
      low = middle;
  }
  return int64_t{1} << low;
}

struct Choice {
  int64_t batch, steps;
  std::string why;
};

Choice choose(const PrivacyQuestion& question, Sigmas& sigmas) {
  const double records = affordable(question);
  const auto [batch, steps] = std::pair{question.batch, question.steps};
  if (batch > 0 && steps > 0) return {batch, steps, "batch and steps are as given"};
  if (records > 0 && steps > 0)
    return {whole(records / static_cast<double>(steps), question.records), steps,
            "steps as given; the batch is what the budget pays for"};
  if (records > 0 && batch > 0)
    return {batch, whole(records / static_cast<double>(batch), privacy::kMaxSteps),
            "batch as given; the steps are what the budget pays for"};
  if (steps > 0) return {knee_batch(sigmas, question.records, steps), steps, "steps as given; the batch is the knee's"};
  // Fewer, larger steps have a lower r at the same cost, until the batch is beyond the knee of that many steps.
  int64_t few = std::min(kFewSteps, whole(records, privacy::kMaxSteps));
  while (few * 2 <= privacy::kMaxSteps && records / static_cast<double>(2 * few) >= 1 &&
         (records / static_cast<double>(few) > static_cast<double>(question.records) ||
          sigmas.beyond_knee(whole(records / static_cast<double>(few), question.records), few)))
    few *= 2;
  return {whole(records / static_cast<double>(few), question.records), few,
          text("at least ", kFewSteps, " steps, and a batch that is not beyond the knee")};
}

// How r falls with the batch, from one row to the next: 1 where doubling the batch halves it.
double gain(const PrivacyRow& smaller, const PrivacyRow& larger) {
  return std::log(smaller.ratio / larger.ratio) / std::log(larger.records_read / smaller.records_read);
}

void mark_knee(std::vector<PrivacyRow>& rows, Sigmas& sigmas) {
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].beyond_knee = i > 0 ? gain(rows[i - 1], rows[i]) < 0.5 : sigmas.beyond_knee(rows[i].batch, rows[i].steps);
    if (i > 0 && rows[i].beyond_knee && !rows[i - 1].beyond_knee) rows[i - 1].knee = true;
  }
}

// Cost of half the ratio of `from` over its cost, between the rows that have more and less of it.
std::optional<double> cost_of_half(const std::vector<PrivacyRow>& rows, const PrivacyRow& from) {
  const double half = from.ratio / 2;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto &above = rows[i - 1], &below = rows[i];
    if (above.batch < from.batch || above.ratio < half || below.ratio > half) continue;
    const double share = std::log(above.ratio / half) / std::log(above.ratio / below.ratio);
    return above.records_read * std::pow(below.records_read / above.records_read, share) / from.records_read;
  }
  return std::nullopt;
}

}  // namespace

void PrivacyPlanConfig::declare(Fields& fields) {
  fields.add("records", records,
             {.help = "training records of a private run to be planned; needs --target-epsilon, --delta, and a budget",
              .unit = "records",
              .min = 0,
              .flags = {"--records"}});
  fields.add("target_epsilon", target_epsilon,
             {.help = "epsilon that the run may spend", .min = 0, .flags = {"--target-epsilon", "--epsilon"}});
  fields.add("delta", delta,
             {.help = "probability that epsilon doesn't hold, below 1 / records",
              .min = 0,
              .max = 1,
              .flags = {"--delta", "--target-delta"}});
  fields.add("expected_batch", expected_batch,
             {.help = "expected batch of all ranks together",
              .unit = "records",
              .min = 0,
              .flags = {"--expected-batch"},
              .if_not_given = "what the budget pays for"});
  fields.add("steps", steps,
             {.help = "optimizer steps of the run",
              .min = 0,
              .flags = {"--budget-steps"},
              .if_not_given = "what the budget pays for"});
  fields.add("budget_gpu_hours", budget_gpu_hours,
             {.help = "compute budget of the run", .unit = "GPU-hours", .min = 0, .flags = {"--budget-gpu-hours"}});
  fields.add(
      "budget_flops", budget_flops,
      {.help = "compute budget of the run in model FLOPs", .unit = "FLOPs", .min = 0, .flags = {"--budget-flops"}});
}

void PrivacyQuestion::require_valid() const {
  SHADE_REQUIRE(records >= 1 && records <= kMostRecords, "number of records ", records,
                " is out of range; expected 1 to ", kMostRecords, ": --records");
  SHADE_REQUIRE(target_epsilon > 0, "a plan with --records, --delta or a budget needs the epsilon to stay within: ",
                "--target-epsilon E, above 0; found ", target_epsilon);
  privacy::require_delta(delta);
  SHADE_REQUIRE(batch >= 0 && batch <= records, "expected batch ", batch, " is out of range; expected 1 to ", records,
                ", the number of records");
  SHADE_REQUIRE(steps >= 0 && steps <= privacy::kMaxSteps, "number of steps ", steps,
                " is out of range; expected at most ", privacy::kMaxSteps);
  SHADE_REQUIRE(budget_flops == 0 || budget_gpu_hours == 0,
                "expected one budget, found --budget-flops and --budget-gpu-hours; drop one of them");
  const bool budget = budget_flops > 0 || budget_gpu_hours > 0;
  SHADE_REQUIRE(!budget || batch == 0 || steps == 0,
                "expected a budget, or batch and steps, found all of them; drop one");
  SHADE_REQUIRE(budget || steps > 0,
                "expected a budget (--budget-gpu-hours or --budget-flops) or a number of steps "
                "(--budget-steps), found neither");
  SHADE_REQUIRE(!budget || flops_per_record > 0,
                "a compute budget needs the FLOPs of a record; name a model (--model) "
                "and a length (--seq)");
  SHADE_REQUIRE(budget_gpu_hours == 0 || flops_per_gpu_second > 0,
                "a budget in GPU-hours needs the speed of a GPU; name one (--device-profile), or give --budget-flops");
}

PrivacyPlan plan_privacy(const PrivacyQuestion& question) {
  question.require_valid();
  PrivacyPlan plan{.question = question};
  Sigmas sigmas(question);
  const auto [batch, steps, why] = choose(question, sigmas);
  plan.chosen = sigmas.exact(batch, steps);
  plan.chosen.chosen = true;

  // From some doublings below the plan up to half of its r, or to all records.
  const auto below = std::min<int64_t>(question.ratio_doublings, static_cast<int64_t>(std::log2(batch)));
  for (int64_t i = below; i > 0; --i) plan.by_cost.push_back(sigmas.near(std::max<int64_t>(1, batch >> i), steps));
  plan.by_cost.push_back(plan.chosen);
  for (int64_t i = 1, next = batch; next < question.records; ++i) {
    if (i > question.ratio_doublings && plan.by_cost.back().ratio <= plan.chosen.ratio / 2) break;
    next = next > question.records / 2 ? question.records : 2 * next;
    plan.by_cost.push_back(sigmas.near(next, steps));
  }
  mark_knee(plan.by_cost, sigmas);
  plan.floor = plan.by_cost.back().batch == question.records ? plan.by_cost.back().ratio
                                                             : sigmas.near(question.records, steps).ratio;
  plan.halving = cost_of_half(plan.by_cost, plan.chosen);
  for (auto& row : plan.by_cost)
    if (row.chosen) plan.chosen = row;

  const double read = plan.chosen.records_read;
  for (int64_t i = -question.ratio_doublings; i <= question.ratio_doublings; ++i) {
    const double other = static_cast<double>(steps) * std::exp2(static_cast<double>(i));
    if (i == 0) plan.same_cost.push_back(plan.chosen);
    if (i == 0 || other < 1 || other > static_cast<double>(privacy::kMaxSteps)) continue;
    const double size = read / std::floor(other);
    if (size < 1 || size > static_cast<double>(question.records)) continue;
    plan.same_cost.push_back(sigmas.near(static_cast<int64_t>(std::llround(size)), static_cast<int64_t>(other)));
  }

  plan.law = {
      text("epsilon, sigma and r of every row: Poisson sampling at rate batch / records, composed over the steps by "
           "prv, "
           "an upper bound; epsilon holds for: ",
           adjacency(question.unit)),
      "the batch is an expected one: drawn batches vary, and the noise is divided by the expected one",
      text("r can't fall below ", significant(plan.floor), " in ", steps,
           " steps at this epsilon and delta, however large the batch"),
  };
  plan.practice = {
      text("why this row: ", why, ". Which division of a budget into batch and steps trains best is not a law"),
      "the knee marks where halving r begins to cost more than four times as much; a run may be better on either side",
      text("what r a model needs: no formula is known for fine-tuning. The largest published private pre-training, ",
           largest_published_run().name, ", had ", significant(largest_published_run().ratio())),
  };
  if (question.flops_per_gpu_second > 0)
    plan.practice.push_back(text("GPU-hours: model FLOPs at ", significant(question.flops_per_gpu_second / 1e12),
                                 " TFLOP/s per GPU, without failures, evaluation and checkpoints"));
  if (question.delta * static_cast<double>(question.records) >= 1)
    plan.practice.push_back(text("delta ", question.delta, " is not below 1 / records (",
                                 significant(1 / static_cast<double>(question.records)),
                                 "): such a delta allows whole records to be published; choose a smaller one"));
  return plan;
}

// VaultGemma 1B (Google, 2025). Guarantee and length: its report; batch, steps and noise: as far as is known, and
// consistent with the guarantee for 9.09e9 sequences, one over its delta.
const PublishedRun& largest_published_run() {
  static constexpr PublishedRun kRun{.name = "VaultGemma 1B",
                                     .records = 9'090'000'000,
                                     .batch = 517'989,
                                     .steps = 100'000,
                                     .length = 1024,
                                     .sigma = 0.614,
                                     .delta = 1.1e-10,
                                     .stated_epsilon = 2.0,
                                     .parameters = 1.04e9};
  return kRun;
}

// A plan of privacy as a person and as a program read it.

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
