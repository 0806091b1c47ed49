#include "shade/train/spec/introduction.h"

#include <algorithm>
#include <cmath>

#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/data/text_dataset.h"
#include "shade/data/unused_fields.h"
#include "shade/io/strict_json.h"
#include "shade/profile/placement.h"

namespace shade::train {
namespace {

std::string privacy_of(const Introduction& run) {
  const auto& [recipe, event] = std::tie(run.recipe, run.event);
  if (run.spending == nullptr) return text("none: ", recipe.decisions().of(Topic::privacy));
  const auto& spending = *run.spending;
  const auto sigma = event.mechanism.noise_multiplier;
  if (!spending.budget())
    return text(to_string(recipe->dp.dp), ", sigma ", sigma, "; no epsilon: ", spending.no_epsilon());
  const auto steps = std::max(run.last, spending.made());
  const auto end = spending.budget()->after(steps);
  return text(to_string(recipe->dp.dp), ", clip norm ", event.clip_norm, ", sigma ", significant(sigma, 5),
              "; epsilon ", rounded_up(end.epsilon), " at delta ", event.delta, " after ", steps, " steps by ",
              to_string(end.accountant), "; neighbouring data sets: ", adjacency(event.unit),
              recipe->dp.seed() ? "; the noise is seeded: NOT private" : "");
}

// Fields that say whose record it is, if they are called so, where epsilon is for one record and not for them.
void tell_users(Report& report, const Introduction& run) {
  if (run.spending == nullptr || run.event.unit != privacy::PrivacyUnit::record) return;
  const auto& data = run.recipe->data;
  if (data.data_folder.empty() || run.recipe->model.is_own()) return;  // records that a program brings are in no folder
  if (!data.fields.user.empty())
    report.say(text("         users by ", io::quote(data.fields.user),
                    " are not protected: epsilon protects one record, not all of a user's records (--privacy-unit user "
                    "--max-records-per-user K)"));
  for (const auto& field : data::find_unused_fields(data::find_text_files(data.data_folder), data.record_options(), 1))
    if (field.may_be_a_user())
      report.say(text("         field ", io::quote(field.name),
                      " is not used: epsilon protects one record, not all of a user's records (--privacy-unit user "
                      "--user-field ",
                      visible(field.name, 40), ")"));
}

// Both options state the size of a batch, and may differ: a private run divides by the one and draws by the other.
void tell_draws(Report& report, const Introduction& run) {
  const auto& [recipe, event] = std::tie(run.recipe, run.event);
  if (recipe->budget.sample_rate == 0 || recipe->budget.sampler == privacy::Sampler::shuffled) return;
  const auto drawn = recipe->budget.sample_rate * static_cast<double>(run.split.training(event.unit));
  const auto stated = static_cast<double>(recipe->work.batch_size);
  if (std::abs(drawn - stated) < std::max(0.5, 0.02 * stated)) return;
  report.say(text("         --sample-rate ", recipe->budget.sample_rate, " draws ", significant(drawn, 4), " ",
                  to_string(event.unit), "s per step on average; --batch-size ", recipe->work.batch_size,
                  recipe->dp.is_private() ? " is the number that their sum is divided by"
                                          : " is not used: the gradient is the mean over those drawn",
                  recipe->dp.is_private() ? " (counts are not private)" : ""));
}

void tell_history(Report& report, const Introduction& run) {
  const auto& [recipe, checkpoints] = std::tie(run.recipe, run.checkpoints);
  const auto more = [&](const auto&... words) { report.say(text("         ", words...)); };
  const auto saved = checkpoints.saved();
  report.say(text("run      ", run.folder.path().string(),
                  saved >= 0 ? text(", continued after step ", saved) : ", from the beginning"));
  if (run.spending != nullptr) {
    const auto made = run.spending->made(), spent = run.spending->spent();
    if (saved < 0 && made > 0) more("the ledger has ", made, " steps; they are repeated to the bit, and count once");
    if (spent > made) more("the ledger has ", spent - made, " more steps, which stay counted");
  }
  if (run.spending != nullptr && run.spending->data() != nullptr) {
    report.say(run.spending->data()->standing_text());
    if (run.last < recipe->work.steps) more("the run ends after step ", run.last, " of ", recipe->work.steps);
  }
  if (!checkpoints.began().empty()) more("began from ", checkpoints.began(), " (--resume-from)");
  if (!checkpoints.changes().empty()) more("changed: ", join(checkpoints.changes(), ", "));
  if (checkpoints.changed() && checkpoints.changes().empty())
    more("with other settings, data, ranks or program than before");
  if (checkpoints.changed() && run.spending != nullptr) more("steps from here have new noise and are counted again");
  if (run.spending != nullptr && run.spending->budget() && run.job.steps() >= run.last &&
      run.last < recipe->work.steps && recipe->budget.max_epsilon > 0)
    more("nothing is left of epsilon ", recipe->budget.max_epsilon,
         "; a larger --max-epsilon continues the run, another --output starts a new one");
}

}  // namespace

void introduce(Report& report, const Introduction& run) {
  const auto& recipe = run.recipe;
  const auto& decisions = recipe.decisions();
  const auto strategy = decisions.of(Topic::strategy);
  auto& model = run.job.model();
  const auto ranks = run.job.groups().control.size();
  report.say(text("model    ", model.describe(), "; ", model.parameters().count(), " parameters, ",
                  model.parameters().count_trainable(), " trained"));
  report.say(text("weights  ", decisions.of(Topic::weights)));
  report.say(text("device   ", profile::describe_device(run.job.device(), run.local_ranks)));
  if (recipe->optim.ema > 0)
    report.say(text("         their moving average (--ema ", recipe->optim.ema, ") is evaluated and exported"));
  report.say(text("data     ", recipe->data.data_folder.empty() ? "" : recipe->data.data_folder + ": ",
                  run.data.describe(), "; ", run.split.describe(),
                  recipe->dp.is_private() ? " (counts are not private)" : ""));
  if (dynamic_cast<const data::TextDataset*>(&run.data) != nullptr) {
    tell_users(report, run);
    const auto vocabulary = decisions.of(Topic::vocabulary);
    report.say(text("tokens   ", decisions.of(Topic::tokenizer), vocabulary.empty() ? "" : "; ", vocabulary));
  }
  report.say(text("batches  ", run.job.describe_batches(), "; ", run.job.shapes().describe(), ", on each of ", ranks,
                  ranks == 1 ? " rank (" : " ranks (", strategy.empty() ? to_string(recipe->shard.shard) : strategy,
                  ")"));
  if (recipe->work.grad_accum > 0)
    report.say(text("         --grad-accum ", recipe->work.grad_accum, " divides the global batch of ",
                    recipe->work.batch_size, "; it does not multiply it"));
  tell_draws(report, run);
  report.say(text("privacy  ", privacy_of(run)));
  if (recipe->dp.is_private()) report.say(text("         ", decisions.of(Topic::privacy)));
  if (recipe->dp.is_private() && recipe->optim.warmup_steps > 0 && run.job.steps() == 0)
    report.say(
        "         the first step of the warm-up has a learning rate of 0: it changes AdamW's moments "
        "but no weight, and counts in epsilon");
  tell_history(report, run);
}

}  // namespace shade::train
