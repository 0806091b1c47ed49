#include "shade/train/release/privacy_statement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/base/utc.h"
#include "shade/checkpoint/ledger.h"
#include "shade/hash/digest.h"
#include "shade/io/input_file.h"
#include "shade/io/model_file.h"
#include "shade/io/weight_folder.h"
#include "shade/privacy/mechanism_version.h"
#include "shade/train/budget/budget.h"
#include "shade/train/budget/data_ledger.h"
#include "shade/train/run/run_folder.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

std::string digest_of_file(const fs::path& file) {
  return hash::to_hex(hash::digest_of(io::MappedFile::open(file)->bytes()));
}

// The steps of a ledger were made by all starts of a run, whose recipes may differ: what any of them used is stated.
struct Starts {
  const Recipe& last;
  EarlierRecipes earlier;

  bool any(const std::function<bool(const Recipe&)>& holds) const {
    return holds(last) || std::any_of(earlier.recipes.begin(), earlier.recipes.end(), holds);
  }
};

// The rate of an earlier start may have followed from the number of units, whatever that of the last one does.
bool has_other_rate(const PrivacyStatement& statement, const Recipe& recipe) {
  return std::any_of(statement.steps.begin(), statement.steps.end(),
                     [&](const auto& kind) { return kind.mechanism.sample_rate != recipe.budget.sample_rate; });
}

bool has_base(const Recipe& recipe) { return !recipe.model.weights.empty(); }
bool holds_out(const Recipe& recipe) { return recipe.train.holds_out(); }

// Private runs up to 0.2 derived the share from the number of records.
bool holds_out_by_number(const Recipe& recipe) { return recipe.train.eval_records > 0; }

std::set<double> held_out_rates(const Starts& starts) {
  std::set<double> out;
  for (const auto& start : starts.earlier.recipes) out.insert(start.train.eval_rate);
  out.insert(starts.last.train.eval_rate);
  out.erase(0);
  return out;
}

std::vector<std::string> public_things(const PrivacyStatement& statement, const Starts& starts) {
  const auto& recipe = starts.last;
  const auto unit = to_string(unit_of(recipe));
  std::vector<std::string> out{
      "the architecture of the model and all settings of the run (steps, expected batch, learning rate, clip norm, "
      "sigma, delta, lengths)"};
  if (starts.any(has_base)) out.emplace_back("the weights that training started from");
  if (starts.any([](const Recipe& start) { return !start.data.data_folder.empty(); })) {
    out.emplace_back("the name of the data set");
    out.emplace_back("the format of the records and the names of their fields");
    out.emplace_back("the tokenizer and the chat template, if the model reads texts");
  }
  if (!recipe.data.classes.empty()) out.emplace_back("the names of the classes");
  if (starts.any(takes_number_as_public))
    out.push_back(text("the number of ", unit, "s in training, from which the sampling follows"));
  else if (!starts.earlier.complete || has_other_rate(statement, recipe))
    out.push_back(
        text("the number of ", unit, "s in training, if the sampling rate of an earlier start follows from it"));
  if (starts.any(holds_out_by_number))
    out.emplace_back("the rounded share of records that is held out, which follows from the number of all records");
  else if (!starts.earlier.complete)
    out.emplace_back(
        "the number of all records, if the share that an earlier start held out follows from it (--eval-records)");
  for (const auto rate : held_out_rates(starts))
    out.push_back(text("the share of ", unit, "s that is held out for evaluation, a setting: ", plain_digits(rate)));
  if (std::any_of(statement.steps.begin(), statement.steps.end(),
                  [](const auto& kind) { return kind.mechanism.max_batch > 0; }))
    out.push_back(text("a bound on the number of ", unit, "s"));
  return out;
}

std::string beyond_the_unit(privacy::PrivacyUnit unit) {
  switch (unit) {
    case privacy::PrivacyUnit::record: return "a person or a source with several records: epsilon is for one record";
    case privacy::PrivacyUnit::window:
      return "a text or a person: epsilon is for one window of tokens, and a text may reach into several";
    case privacy::PrivacyUnit::user:
      return "a person under several names, and what the records of other users say about a user";
  }
  return {};
}

std::vector<std::string> uncovered_things(const PrivacyStatement& statement, const Starts& starts) {
  std::vector<std::string> out{
      "losses, evaluations, counts, times and memory use of the run (`not_private` in its metrics), and what is "
      "decided by them",
      // The cap of a data ledger holds for runs that were chosen by the noisy results of others.
      text("selecting settings, runs or checkpoints after seeing results on the same data",
           statement.is_shared() ? " without noise (losses, evaluations)" : "",
           ", or a checkpoint by the time at which it was saved"),
      text("other runs and releases on the same data",
           statement.data_ledger ? ", apart from runs that share the data ledger: its cap covers them together" : ""),
      beyond_the_unit(unit_of(starts.last))};
  if (starts.any(has_base)) out.emplace_back("the data that the base model was trained on");
  if (starts.any(holds_out))
    out.emplace_back(starts.earlier.recipes.empty()
                         ? "records that were held out for evaluation"
                         : "records that were held out for evaluation, as configured at each start: those of one start "
                           "may be trained on by another");
  if (!starts.last.train.test_folder.empty()) out.emplace_back("records of the test set: no step was made on them");
  if (statement.key != NoiseKeyState::absent)
    out.emplace_back("the key of the noise, which was not deleted: anyone who reads it can subtract the noise");
  out.emplace_back("an observer of the training: its run directory, memory, network traffic or timing");
  if (!std::ranges::all_of(statement.steps, &PrivacyStatement::Steps::ideal_noise))
    out.emplace_back(
        "steps of an earlier version of shade: the difference between their noise, computed in finite precision, and "
        "the "
        "Gaussian that is accounted for");
  out.emplace_back("an observer who can break ChaCha20 or BLAKE2b, whose random bits are taken as uniform");
  return out;
}

// Ledgers of earlier versions have neither clip style nor records per user: then those of the last start are stated.
PrivacyStatement::Steps steps_of(const checkpoint::Spent& spent, const Recipe& recipe) {
  const auto& event = spent.event;
  const auto version = event.value("mechanism_version", 1);
  PrivacyStatement::Steps out{.mechanism = mechanism_in(event).value(),
                              .clip_norm = event.at("clip_norm"),
                              .divisor = event.at("divisor"),
                              .clip_style = recipe.dp.clip.style,
                              .exact_sum = version >= privacy::kExactSums,
                              .ideal_noise = version >= privacy::kIdealNoise,
                              .count = spent.steps};
  if (event.contains("clip_style"))
    out.clip_style = parse_name<privacy::ClipStyle>(event.at("clip_style").get<std::string>());
  if (unit_of(recipe) == privacy::PrivacyUnit::user)
    out.max_records = event.value("max_records_per_user", recipe.budget.max_records_per_user);
  return out;
}

// What the ledger has, and the epsilon of it.
void read_ledger(PrivacyStatement& out, const Recipe& recipe, const fs::path& run) {
  const auto file = run / kLedgerFile;
  if (!fs::exists(file)) {
    if (out.no_guarantee.empty()) out.no_guarantee = "the run has no ledger of its private steps";
    return;
  }
  out.ledger_digest = digest_of_file(file);
  const auto ledger = checkpoint::Ledger::read(file);
  if (digest_of_file(file) != out.ledger_digest)
    throw Error(text(file.string(), " changed while it was read: the run is still active; wait until it is finished"));
  // A run with a seed protects nothing, whatever the key of this start is.
  privacy::PrivacyEvent event{.mechanism = {}, .unit = out.unit, .delta = recipe.budget.delta, .unit_by = out.unit_by};
  const auto all = earlier_steps(ledger, event, /*seeded=*/false);
  if (out.no_guarantee.empty()) out.no_guarantee = all.count == 0 ? "the ledger has no step" : all.no_epsilon;
  if (!out.no_guarantee.empty()) return;
  for (const auto& spent : ledger) out.steps.push_back(steps_of(spent, recipe));
  auto unlimited = recipe.budget;
  unlimited.max_epsilon = 0;
  event.mechanism = all.steps.front().mechanism;  // of the 0 steps to come
  out.spent = Budget(event, unlimited, all.steps).after(0);
  if (!out.spent->upper_bound || !std::isfinite(out.spent->epsilon))
    out.no_guarantee = text("the accountant ", to_string(out.spent->accountant), " gives no finite upper bound");
  if (!out.no_guarantee.empty()) out.spent.reset();
}

// Proves that it is the data ledger that the run spent from, with all lines that the run has seen and all its steps.
DataBooks books_of(const fs::path& file, const fs::path& run) {
  const auto seen = checkpoint::Ledger::remembered_in(run / kLedgerFile);
  SHADE_REQUIRE(!seen.is_null() && seen.at("id") == DataLedger(file).read().id, "the data ledger ", file.string(),
                " is not the one that the run spent from; expected ",
                seen.is_null() ? "none" : text("a copy of ", seen.at("file").get<std::string>()));
  DataLedger ledger(file);
  ledger.remember({seen.at("line"), seen.at("digest")});
  const auto books = ledger.read();
  for (const auto& [mark, steps] : checkpoint::Ledger::counted_in(run / kLedgerFile)) {
    const auto* entry = books.find(mark);
    SHADE_REQUIRE(steps == 0 || (entry != nullptr && entry->steps >= steps), "the data ledger ", file.string(),
                  " lacks steps of the run; restore its newest copy");
  }
  return books;
}

// Other runs may append to the file meanwhile: the digest is that of what was read.
PrivacyStatement::DataLedger total_of(const fs::path& file, const fs::path& run) {
  SHADE_REQUIRE(
      fs::exists(file), "the run spent from the data ledger ", file.string(),
      ", which does not exist; run this command in the folder where the run was started, or restore the file");
  PrivacyStatement::DataLedger out;
  DataBooks books;
  do {
    out.digest = digest_of_file(file);
    books = books_of(file, run);
  } while (digest_of_file(file) != out.digest);
  std::set<std::string> own, others;  // a run is known by the marks in its ledger, not by where its folder is
  for (const auto& [mark, steps] : checkpoint::Ledger::counted_in(run / kLedgerFile)) own.insert(mark);
  for (const auto& entry : books.entries)
    if (entry.steps > 0 && !own.contains(entry.spender.stretch)) others.insert(entry.spender.run);
  out.cap = books.cap;
  out.planned = privacy::spent(privacy::Accountant::prv, books.spent(), books.cap.delta);
  out.runs = 1 + static_cast<int64_t>(others.size());
  return out;
}

}  // namespace

int64_t PrivacyStatement::step_count() const {
  int64_t out = 0;
  for (const auto& kind : steps) out += kind.count;
  return out;
}

Headline headline(const PrivacyStatement& statement) {
  SHADE_CHECK(statement.spent, "a statement without a guarantee has no epsilon");
  if (statement.is_shared()) return {statement.data_ledger->cap.epsilon, statement.data_ledger->cap.delta};
  return {statement.spent->epsilon, statement.spent->delta};
}

PrivacyStatement::Program program_in(const Json& environment) {
  const auto word = [&](const char* key) {
    const auto found = environment.is_object() && environment.contains(key) ? environment[key] : Json();
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  return {word("shade"), word("commit"), word("libtorch")};
}

PrivacyStatement state_privacy(const Recipe& recipe, const fs::path& run) {
  PrivacyStatement out{.unit = unit_of(recipe), .unit_by = unit_by_of(recipe), .optimizer = recipe.optim.optimizer};
  out.no_guarantee = no_epsilon(recipe);
  if (!recipe.dp.is_private()) {
    out.no_guarantee = "the run is not private";
    return out;
  }
  if (out.no_guarantee.empty() && recipe.dp.seed()) out.no_guarantee = "the noise has a seed, not a secret key";
  read_ledger(out, recipe, run);
  if (out.spent) {
    const auto seen = checkpoint::Ledger::remembered_in(run / kLedgerFile);
    SHADE_REQUIRE(seen.is_null() || !recipe.budget.data_ledger.empty(), "the run spent from the data ledger ",
                  seen.value("file", std::string("that its ledger names")), ", and ", (run / kRecipeFile).string(),
                  " names none; restore that file");
    if (!recipe.budget.data_ledger.empty()) out.data_ledger = total_of(recipe.budget.data_ledger, run);
  }
  const Starts starts{.last = recipe, .earlier = earlier_recipes(run)};
  if (starts.any([](const Recipe& start) { return start.budget.keep_key; })) out.key = NoiseKeyState::kept;
  if (fs::exists(run / kKeyFile)) out.key = NoiseKeyState::present;
  out.taken_as_public = public_things(out, starts);
  out.not_covered = uncovered_things(out, starts);
  return out;
}

namespace {

namespace fs = std::filesystem;

using privacy::Sampler;

bool truncated(const Recipe& recipe) { return recipe.budget.sampler == Sampler::truncated_poisson; }

// The number that a start with these steps had, if it follows from them to the digit.
std::optional<int64_t> units_behind(const Recipe& recipe, const SampledSteps& steps) {
  const auto& [mechanism, divisor] = steps;
  if (recipe.budget.sample_rate == 0) {
    const auto units = std::llround(divisor / mechanism.sample_rate);
    if (units > 0 && divisor / static_cast<double>(units) == mechanism.sample_rate) return units;
    return std::nullopt;
  }
  if (truncated(recipe) && recipe.budget.population == 0 && mechanism.population > 1) return mechanism.population - 1;
  return std::nullopt;
}

TrainingFacts::Count units_of(std::span<const Recipe> starts, std::span<const SampledSteps> steps) {
  const auto& recipe = starts.back();
  TrainingFacts::Count out{.of = to_string(unit_of(recipe)) + "s", .number = {}, .not_stated = {}};
  if (steps.empty()) {
    out.not_stated = "without a guarantee no number is taken as public";
    return out;
  }
  if (std::none_of(starts.begin(), starts.end(), takes_number_as_public)) {
    out.not_stated = "it is private; the sampling rate was given, so this number is not taken as public";
    return out;
  }
  if (std::all_of(starts.begin(), starts.end(), takes_number_as_public))
    out.number = units_behind(recipe, steps.front());
  for (const auto& kind : steps)
    if (units_behind(recipe, kind) != out.number) out.number.reset();
  if (!out.number) out.not_stated = "it differs between the starts of the run, or does not follow from its ledger";
  return out;
}

std::vector<TrainingFacts::Count> counts_of(std::span<const Recipe> starts, std::span<const SampledSteps> steps) {
  std::vector<TrainingFacts::Count> out{units_of(starts, steps)};
  const auto unit = unit_of(starts.back());
  if (unit != privacy::PrivacyUnit::record)
    out.push_back({.of = "records",
                   .number = {},
                   .not_stated = text("it is private; the unit of privacy is a ", to_string(unit),
                                      ", and no number of records is taken as public")});
  return out;
}

// models--ORGANISATION--NAME/snapshots/COMMIT of the hub's cache.
bool read_hub_name(const fs::path& folder, TrainingFacts::Base& out) {
  const std::string begin = "models--";
  auto name = folder.parent_path().parent_path().filename().string();
  if (folder.parent_path().filename() != "snapshots" || !name.starts_with(begin)) return false;
  name = name.substr(begin.size());
  if (const auto at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
  out.name = name;
  out.revision = folder.filename().string();
  return true;
}

TrainingFacts::Base base_of(const Recipe& recipe) {
  TrainingFacts::Base out;
  if (recipe.model.weights.empty()) return out;
  const fs::path weights = (fs::path(recipe.model.weights) / "").parent_path();
  if (!read_hub_name(weights, out)) out.name = last_name(weights);
  if (out.name.empty()) out.name = "a folder without a name";
  if (!fs::exists(weights) || (fs::is_directory(weights) && !io::has_weights(weights))) return out;
  for (const auto& file : io::WeightFolder(weights).files()) {
    const auto opened = io::open_model_file(file.parent_path(), file.filename());
    out.files.push_back({file.filename().string(), hash::sha256_of(*opened)});
  }
  return out;
}

Json optimizer_settings(const optim::OptimConfig& optim) {
  Json out{{"optimizer", to_string(optim.optimizer)},
           {"learning_rate", optim.lr},
           {"schedule", to_string(optim.schedule)},
           {"warmup_steps", optim.warmup_steps},
           {"weight_decay", optim.weight_decay}};
  if (optim.optimizer == optim::Algorithm::sgd) {
    out["momentum"] = optim.momentum;
    if (optim.nesterov) out["nesterov"] = true;
  } else {
    out.update({{"beta1", optim.beta1}, {"beta2", optim.beta2}, {"eps", optim.eps}});
  }
  if (optim.optimizer == optim::Algorithm::adambc) out["noise_floor"] = optim.noise_floor;
  if (optim.grad_clip > 0) out["grad_clip"] = optim.grad_clip;
  if (optim.ema > 0) out["ema"] = optim.ema;
  return out;
}

Json settings_stated(const Recipe& recipe) {
  const auto& [model, work] = std::tie(recipe.model, recipe.work);
  auto out = optimizer_settings(recipe.optim);
  out["steps"] = work.steps;
  out["batch_size"] = work.batch_size;
  if (recipe.train.eval_rate > 0) out["eval_rate"] = recipe.train.eval_rate;
  const auto kind = model.model_kind(recipe.sizes).value;
  if (kind == kLanguageModel || kind == kTextClassifier) out["seq_length"] = work.seq_length;
  out["dtype"] = to_string(model.dtype);
  if (model.lora_rank > 0)
    out.update(
        {{"lora_rank", model.lora_rank}, {"lora_alpha", model.lora_alpha}, {"lora_targets", model.lora_targets}});
  if (recipe.dp.is_private()) out["clipping_method"] = to_string(recipe.dp.dp);
  if (recipe.dp.is_private() && recipe.dp.clip.style == privacy::ClipStyle::adaptive)
    out.update({{"clip_quantile", recipe.dp.clip.quantile},
                {"clip_rate", recipe.dp.clip.rate},
                {"count_sigma", recipe.dp.clip.count_sigma}});
  return out;
}

// Of 2026-01-31T12:00:00Z, as utc_text() writes it.
std::string day_in(const Json& environment) {
  const auto date = environment.is_object() && environment.contains("date") ? environment["date"] : Json();
  const auto day = date.is_string() ? date.get<std::string>().substr(0, 10) : std::string();
  return is_day(day) ? day : std::string();
}

std::string data_of(const Recipe& recipe) {
  if (recipe.data.data_folder.empty() && recipe.work.synthetic) return "synthetic records, generated by shade";
  return last_name(recipe.data.data_folder);
}

}  // namespace

bool takes_number_as_public(const Recipe& recipe) {
  return recipe.budget.sample_rate == 0 || (truncated(recipe) && recipe.budget.population == 0);
}

std::string last_name(const fs::path& path) {
  const auto name = (path / "").lexically_normal().parent_path().filename().string();
  return name == "." || name == ".." ? std::string() : name;
}

TrainingFacts facts_of(std::span<const Recipe> starts, std::span<const SampledSteps> steps, const Json& environment) {
  TrainingFacts out{.started = day_in(environment), .data = {}};
  std::vector<std::string> data;
  for (const auto& start : starts) {
    const auto name = data_of(start);
    if (!name.empty() && std::find(data.begin(), data.end(), name) == data.end()) data.push_back(name);
  }
  out.data = join(data, ", ");
  out.counts = counts_of(starts, steps);
  out.base = base_of(starts.front());
  for (const auto& start : starts.subspan(1)) {
    auto base = base_of(start);
    if (base != out.base && std::find(out.later_bases.begin(), out.later_bases.end(), base) == out.later_bases.end())
      out.later_bases.push_back(std::move(base));
  }
  out.settings = settings_stated(starts.back());
  return out;
}

// A privacy statement for programs: privacy.json.

namespace {

Json program_json(const PrivacyStatement::Program& program) {
  Json out = Json::object();
  for (const auto& [key, word] :
       {std::pair("shade", program.shade), {"commit", program.commit}, {"libtorch", program.libtorch}})
    if (!word.empty()) out[key] = word;
  return out;
}

Json files_json(const std::vector<FileDigest>& files) {
  Json out = Json::array();
  for (const auto& [name, digest] : files) out.push_back({{"name", name}, {"sha256", digest}});
  return out;
}

double stated_epsilon(double epsilon) { return std::stod(rounded_up(epsilon)); }

Json unit_json(const PrivacyStatement& s) {
  Json out{{"kind", to_string(s.unit)}};
  if (!s.unit_by.empty()) out[s.unit == privacy::PrivacyUnit::user ? "field" : "by"] = s.unit_by;
  return out;
}

Json mechanisms_json(const std::vector<PrivacyStatement::Steps>& steps) {
  Json out = Json::array();
  for (const auto& [mechanism, clip_norm, divisor, clip_style, max_records, exact_sum, ideal_noise, count] : steps) {
    Json kind{{"steps", count},
              {"sampler", to_string(mechanism.sampler)},
              {"sample_rate", mechanism.sample_rate},
              {"sigma", mechanism.noise_multiplier},
              {"clip_norm", clip_norm},
              {"clip_style", to_string(clip_style)},
              {"divisor", divisor},
              {"sum", exact_sum ? "exact" : "rounded"},
              {"noise", ideal_noise ? "ideal, rounded once" : "approximate"}};
    if (max_records > 0) kind["max_records_per_user"] = max_records;
    if (mechanism.max_batch > 0)
      kind.update({{"max_batch", mechanism.max_batch}, {"population", mechanism.population}});
    out.push_back(std::move(kind));
  }
  return out;
}

Json data_json(const TrainingFacts& facts) {
  Json out{{"counts", Json::array()}};
  if (!facts.data.empty()) out["name"] = facts.data;
  for (const auto& [of, number, why] : facts.counts) {
    Json count{{"of", of}};
    if (number)
      count["number"] = *number;
    else
      count["not_stated"] = why;
    out["counts"].push_back(std::move(count));
  }
  return out;
}

Json base_json(const TrainingFacts::Base& base) {
  if (base.name.empty()) return {{"random", true}};
  Json out{{"random", false}, {"name", base.name}, {"files", files_json(base.files)}};
  if (!base.revision.empty()) out["revision"] = base.revision;
  return out;
}

Json training_json(const TrainingFacts& facts) {
  Json out{{"checkpoint_step", facts.checkpoint_step}, {"settings", facts.settings}};
  if (!facts.started.empty()) out["last_started_on"] = facts.started;
  return out;
}

void add_guarantee(Json& out, const PrivacyStatement& s) {
  const auto [epsilon, delta] = headline(s);
  out["epsilon"] = stated_epsilon(epsilon);
  out["delta"] = delta;
  out["scope"] = s.is_shared() ? "data ledger" : "run";
  out["run"] = {{"epsilon", stated_epsilon(s.spent->epsilon)},
                {"delta", s.spent->delta},
                {"accountant", to_string(s.spent->accountant)}};
  out["adjacency"] = adjacency(s.unit);
  out["unit"] = unit_json(s);
  out["steps"] = s.step_count();
  out["mechanisms"] = mechanisms_json(s.steps);
  out["noise"] = {{"distribution", "Gaussian"}, {"generator", "ChaCha20"}, {"key", to_string(s.key)}};
  out["taken_as_public"] = s.taken_as_public;
  out["not_covered"] = s.not_covered;
}

}  // namespace

Json to_json(const PrivacyStatement& s) {
  Json out{{"format", kStatementFormat}, {"version", kStatementVersion}, {"released_on", s.released_on}};
  out["guarantee"] = s.no_guarantee.empty();
  if (!s.no_guarantee.empty()) out["no_guarantee"] = s.no_guarantee;
  if (s.spent) add_guarantee(out, s);
  out["data"] = data_json(s.facts);
  out["base_model"] = base_json(s.facts.base);
  for (const auto& base : s.facts.later_bases) out["later_base_models"].push_back(base_json(base));
  out["training"] = training_json(s.facts);
  out["versions"] = {{"trained_with", program_json(s.trained_with)}, {"released_with", program_json(s.released_with)}};
  if (!s.ledger_digest.empty()) out["ledger"] = {{"algorithm", "BLAKE2b-256"}, {"digest", s.ledger_digest}};
  if (s.spent && s.data_ledger)
    out["data_ledger"] = {{"epsilon_cap", s.data_ledger->cap.epsilon},
                          {"delta", s.data_ledger->cap.delta},
                          {"epsilon_if_planned_ahead", stated_epsilon(s.data_ledger->planned.epsilon)},
                          {"accountant", to_string(s.data_ledger->planned.accountant)},
                          {"runs", s.data_ledger->runs},
                          {"digest", s.data_ledger->digest}};
  out["files"] = files_json(s.files);
  return out;
}

}  // namespace shade::train
