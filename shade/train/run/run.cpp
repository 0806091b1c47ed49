#include "shade/train/run/run.h"

#include <algorithm>
#include <regex>

#include "shade/base/error.h"
#include "shade/base/temporary_folder.h"
#include "shade/base/units.h"
#include "shade/checkpoint/agreement.h"
#include "shade/train/run/trainer.h"

namespace shade::train {
namespace {

// The fields of a recipe that the options stand for, and which of them were stated.
std::pair<Recipe, Given> recipe_for(const RunOptions& options) {
  Recipe out;
  Given given;
  out.model.model = models::kOwnModel;
  out.model.from_scratch = options.weights.empty();
  out.model.weights = options.weights;
  SHADE_REQUIRE(options.dtype == nn::DType::fp32 || options.dtype == nn::DType::bf16,
                "a run computes in fp32 or bf16, not ", to_string(options.dtype));
  out.model.dtype = options.dtype == nn::DType::bf16 ? ComputeType::bf16 : ComputeType::fp32;
  out.data.data_folder = options.records_name;
  out.data.tokenizer = options.tokenizer;
  auto& work = out.work;
  SHADE_REQUIRE(options.steps > 0, "RunOptions::steps is ", options.steps, "; expected at least 1");
  SHADE_REQUIRE(options.batch_size > 0, "RunOptions::batch_size is ", options.batch_size, "; expected at least 1");
  work.steps = options.steps;
  work.batch_size = options.batch_size;
  work.seed = static_cast<int64_t>(options.seed);
  work.micro_batch = options.micro_batch > 0 ? std::to_string(options.micro_batch) : "auto";
  out.optim = options.optimizer;
  given.state("optim.lr", text(options.optimizer.lr));
  if (options.shard) {
    out.shard.shard = *options.shard;
    given.state("shard.shard", to_string(*options.shard));
  }
  SHADE_REQUIRE(!options.budget || options.sigma == 0,
                "RunOptions::budget and sigma both say how much noise there is; leave one of them out");
  SHADE_REQUIRE(options.sigma >= 0, "RunOptions::sigma is ", options.sigma, "; expected noise per clip norm, or 0");
  const bool is_private = options.budget || options.sigma > 0;
  SHADE_REQUIRE(is_private || options.unit == privacy::PrivacyUnit::record, "RunOptions::unit is ",
                to_string(options.unit), ", and the run is not private; set a budget or sigma");
  out.dp.dp = is_private ? options.method : privacy::MethodName::none;
  given.state("dp.dp", to_string(out.dp.dp));
  out.dp.max_grad_norm = options.clip_norm;
  if (is_private) out.dp.sigma = options.sigma;
  if (options.noise_seed) out.dp.noise_seed = static_cast<int64_t>(*options.noise_seed);
  auto& budget = out.budget;
  if (options.budget) budget.target_epsilon = options.budget->epsilon;
  budget.delta = options.budget ? options.budget->delta : options.delta;
  budget.privacy_unit = options.unit;
  budget.max_records_per_user = options.max_records_per_user;
  if (options.unit == privacy::PrivacyUnit::user) out.data.fields.user = "user";
  SHADE_REQUIRE(options.population == 0 || options.population >= options.batch_size, "RunOptions::population is ",
                options.population, ", less than a batch of ", options.batch_size);
  if (options.population > 0)
    budget.sample_rate = static_cast<double>(options.batch_size) / static_cast<double>(options.population);
  budget.data_ledger = options.data_ledger;
  auto& train = out.train;
  train.output = options.folder;
  train.save_every = options.save_every;
  train.keep = options.keep;
  train.restart = options.restart;
  train.eval_rate = options.eval_rate;
  train.export_folder = options.export_folder;
  return {std::move(out), std::move(given)};
}

// What the trainer calls by the options of shade train.
constexpr std::pair<std::string_view, std::string_view> kOwnNames[] = {
    {"--batch-size", "batch_size"},
    {"--data-folder", "records_name"},
    {"--data-ledger", "data_ledger"},
    {"--delta", "budget"},
    {"--dp auto", "budget or RunOptions::sigma"},
    {"--dp none", "budget and RunOptions::sigma left out"},
    {"--ema", "optimizer.ema"},
    {"--eval-rate", "eval_rate"},
    {"--export", "export_folder"},
    {"--grad-clip", "optimizer.grad_clip"},
    {"--keep", "keep"},
    {"--lr", "optimizer.lr"},
    {"--max-grad-norm", "clip_norm"},
    {"--max-records-per-user", "max_records_per_user"},
    {"--micro-batch", "micro_batch"},
    {"--momentum", "optimizer.momentum"},
    {"--noise-seed", "noise_seed"},
    {"--optimizer", "optimizer.optimizer"},
    {"--output", "folder"},
    {"--privacy-unit", "unit"},
    {"--restart", "restart"},
    {"--save-every", "save_every"},
    {"--seed", "seed"},
    {"--shard", "shard"},
    {"--sigma", "sigma"},
    {"--steps", "steps"},
    {"--target-epsilon", "budget"},
    {"--tokenizer", "tokenizer"},
    {"--total-steps", "optimizer.total_steps"},
    {"--weights", "weights"},
};

// Those options by the names of RunOptions; others are left as they are.
std::string in_own_words(const std::string& message) {
  static const std::regex option("\\B--(dp (auto|none)|[a-z][a-z-]*)");
  std::string out;
  auto rest = message.begin();
  for (auto found = std::sregex_iterator(message.begin(), message.end(), option); found != std::sregex_iterator();
       ++found) {
    const auto own = std::ranges::find(kOwnNames, found->str(), [](const auto& row) { return std::string(row.first); });
    out.append(rest, message.begin() + found->position());
    out += own == std::end(kOwnNames) ? found->str() : text("RunOptions::", own->second);
    rest = message.begin() + found->position() + found->length();
  }
  return out.append(rest, message.end());
}

template <class Act>
auto with_own_names(Act&& act) {
  try {
    return act();
  } catch (const UsageError& wrong) {
    throw UsageError(in_own_words(wrong.what()));
  }
}

// Not owned: the caller's outlives the run.
template <class T>
std::shared_ptr<T> borrowed(T& object) {
  return {std::shared_ptr<void>(), &object};
}

}  // namespace

// On every host: ranks agree on one name.
struct Run::Kept {
  explicit Kept(const comm::Group& control) {
    path = checkpoint::from_rank0(control, "making a folder for the run", [&] {
      own.emplace("shade_run");
      return own->path().string();
    });
  }
  ~Kept() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  std::optional<TemporaryFolder> own;  // rank 0's
  std::filesystem::path path;
};

Run::Run(comm::World& world, models::Model& model, const data::Dataset& records, RunOptions options) {
  auto [recipe, given] = recipe_for(options);
  if (options.folder.empty()) {
    SHADE_REQUIRE(options.save_every == 0 && options.data_ledger.empty(),
                  "checkpoints and a data ledger need a folder of the run; set RunOptions::folder");
    kept_ = std::make_unique<Kept>(world.control("run"));
    recipe.train.output = kept_->path.string();
  }
  trainer_ = with_own_names([&] {
    return std::make_unique<Trainer>(
        world, resolve(std::move(recipe), given, world.size()), borrowed(records),
        Trainer::Options{.quiet = !options.talks, .model = borrowed(model), .saves = !options.folder.empty()});
  });
}

Run::~Run() = default;

std::optional<StepRecord> Run::step() {
  if (finished_) return std::nullopt;
  return with_own_names([&] {
    auto made = trainer_->next();
    if (!made) {
      finished_ = true;
      trainer_->finish();
    }
    return made;
  });
}

void Run::finish() {
  while (step()) continue;
}

int64_t Run::steps() const { return trainer_->steps(); }
std::optional<privacy::Spent> Run::spent() const { return trainer_->spent(); }
shard::Runtime& Run::runtime() { return trainer_->runtime(); }

std::string Run::privacy() const {
  const auto spent = trainer_->spent();
  if (!spent) return text("no privacy guarantee: ", trainer_->why_no_epsilon());
  return text("epsilon ", rounded_up(spent->epsilon), " at delta ", spent->delta, " for each ",
              to_string(trainer_->run_spec()->budget.privacy_unit));
}

}  // namespace shade::train
