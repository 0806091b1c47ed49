// shade audit: can an observer break the claim?

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "shade/base/config.h"
#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/input_text.h"
#include "shade/base/json.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/data/keyed_bits.h"
#include "shade/privacy/key.h"
#include "shade/proof/audit.h"
#include "shade/proof/audit_canaries.h"
#include "shade/proof/audit_training.h"
#include "shade/serve/opened_model.h"
#include "shade/train/feed/records.h"
#include "shade/train/run/model_states.h"
#include "shade/train/spec/recipe.h"

namespace shade::cli {
namespace {

// shade audit --kind model of a model that was trained elsewhere: canaries split by coins before the training, and
// their losses after it.
struct FinishedModel {
  std::string trained, reference, included, excluded, split_canaries, output_dir;
  double claimed_epsilon = 0;

  void declare(Fields& f);
  bool splits() const { return !split_canaries.empty(); }
  bool asked() const;  // throws UsageError if something is missing
};

struct Canaries {
  std::vector<double> losses;
  std::vector<data::UserId> users;  // of a run that has them
};

// Each loss is computed alone, so that no other record changes how it is rounded.
Canaries read_canaries(serve::OpenedModel& model, const std::string& folder) {
  const auto traits = model.model->text_traits();
  SHADE_REQUIRE(traits.has_value(), "canaries of a finished model are texts, and ", model.title,
                " doesn't learn from texts");
  SHADE_REQUIRE(model.data.packing == data::Packing::records, model.title,
                " was trained on packed texts: a window may hold tokens of several canaries; audit a "
                "model trained with --packing records");
  auto data = model.data;
  data.data_folder = folder;
  data.max_records = 0;
  data.cache_folder.clear();
  data.tokenizer = model.tokenizer_place;
  data.classes.clear();  // model.head() has them
  const auto most = traits->window > 0 ? std::min(traits->window, traits->max_positions) : traits->max_positions;
  const auto length = model.seq_length > 0 ? std::min(model.seq_length, most) : most;
  const auto records = train::open_texts(data, length, *traits, {}, model.head());
  const at::NoGradGuard no_graph;
  Canaries out;
  for (int64_t i = 0; i < records->size(); ++i) {
    out.losses.push_back(model.model->losses(records->padded_batch({&i, 1}, records->length_of(i))).item<double>());
    if (const auto user = records->user_of(i)) out.users.push_back(*user);
  }
  return out;
}

// A run that protects users promises nothing about two records of one: each canary needs a different user.
void require_own_users(std::vector<data::UserId> users) {
  std::sort(users.begin(), users.end());
  SHADE_REQUIRE(std::adjacent_find(users.begin(), users.end()) == users.end(),
                "two canaries have the same user; expected a different user for each canary");
}

std::vector<std::string> lines_of(const std::string& file) {
  require_readable(file);
  std::ifstream in(file);
  SHADE_REQUIRE(in.good(), "can't read ", file,
                "; expected a file with a canary per line, as the data has its records");
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    if (!trim(line).empty()) out.push_back(line);
  return out;
}

void FinishedModel::declare(Fields& f) {
  f.add(
      "trained", trained,
      {.help = "kind model: run of shade train, model folder or adapters to audit, trained with the included canaries "
               "among its records; if not set, a small model is trained here",
       .flags = {"--trained"},
       .needs = {{"audit.kind", {"model"}}}});
  f.add("reference", reference,
        {.help = "with --trained: model before that training; a canary's loss is compared with the loss under it",
         .flags = {"--reference"},
         .needs = {{"audit.trained"}}});
  f.add("included", included,
        {.help = "with --trained: folder with the canaries that were trained on",
         .flags = {"--included"},
         .needs = {{"audit.trained"}}});
  f.add("excluded", excluded,
        {.help = "with --trained: folder with the canaries that were not",
         .flags = {"--excluded"},
         .needs = {{"audit.trained"}}});
  f.add("claimed_epsilon", claimed_epsilon,
        {.help = "with --trained: epsilon at --delta that is claimed for it",
         .min = 0,
         .flags = {"--claimed-epsilon"},
         .needs = {{"audit.trained"}}});
  f.add("split_canaries", split_canaries,
        {.help = "file with a canary per line (.jsonl); each is written to included/ or excluded/ in --output-dir by a "
                 "coin from the operating system, and nothing is audited",
         .flags = {"--split-canaries"}});
  f.add("output_dir", output_dir,
        {.help = "with --split-canaries: folder that they are written to",
         .flags = {"--output-dir"},
         .needs = {{"audit.split_canaries"}}});
}

bool FinishedModel::asked() const {
  if (trained.empty()) return false;
  SHADE_REQUIRE(!included.empty() && !excluded.empty() && claimed_epsilon > 0,
                "the audit of a finished model needs --trained, --included, --excluded and --claimed-epsilon");
  return true;
}

// Writes OUTPUT/included/canaries.jsonl and OUTPUT/excluded/canaries.jsonl: each line of the file into one of them.
int split_canaries(const FinishedModel& what) {
  SHADE_REQUIRE(!what.output_dir.empty(), "--split-canaries needs --output-dir, the folder that they are written to");
  const auto lines = lines_of(what.split_canaries);
  SHADE_REQUIRE(lines.size() >= 10, what.split_canaries, " has ", lines.size(),
                " canaries; expected at least 10, and hundreds to show anything");
  const auto ending = std::filesystem::path(what.split_canaries).extension();
  data::KeyedBits bits(privacy::secret_key().bytes(), data::KeyedBits::Purpose::poisson, 0);
  std::string sides[2];
  for (const auto& line : lines) sides[bits.below(2)] += line + "\n";
  const auto folder_of = [&](bool included) {
    return std::filesystem::path(what.output_dir) / (included ? "included" : "excluded");
  };
  // A second draw could be chosen by what the first one gave, and halves of two draws share canaries.
  for (const bool included : {false, true})
    SHADE_REQUIRE(!std::filesystem::exists(folder_of(included)), folder_of(included).string(),
                  " exists; choose another --output-dir");
  for (const bool included : {false, true}) {
    const auto folder = folder_of(included);
    const auto file = folder / ("canaries" + ending.string());
    make_folder(folder, Readers::owner);  // who knows which canaries are included has the answers
    write_output(file, sides[included ? 1 : 0], Readers::owner);
    std::printf(
        "%s: %lld canaries\n", visible(file.string()).c_str(),
        static_cast<long long>(std::count(sides[included ? 1 : 0].begin(), sides[included ? 1 : 0].end(), '\n')));
  }
  return 0;
}

proof::CanaryAuditResult audit_finished(const FinishedModel& what, const proof::Audit& audit) {
  std::vector<double> scores;
  std::vector<bool> included;
  std::vector<data::UserId> users;
  auto trained = serve::open_model(what.trained);
  for (const bool in : {true, false}) {
    const auto canaries = read_canaries(trained, in ? what.included : what.excluded);
    for (const auto loss : canaries.losses) scores.push_back(-loss);
    included.resize(scores.size(), in);
    users.insert(users.end(), canaries.users.begin(), canaries.users.end());
  }
  const bool has_users = !users.empty();
  require_own_users(std::move(users));
  if (!what.reference.empty()) {
    auto reference = serve::open_model(what.reference);
    reference.data = trained.data;  // the same records, whatever that model was trained on
    size_t at = 0;
    for (const bool in : {true, false})
      for (const auto loss : read_canaries(reference, in ? what.included : what.excluded).losses) {
        SHADE_REQUIRE(at < scores.size(), "--reference reads more canaries than --trained does");
        scores[at++] += loss;
      }
    SHADE_REQUIRE(at == scores.size(), "--reference reads ", at, " canaries and --trained ", scores.size());
  }
  SHADE_REQUIRE(scores.size() >= 10, scores.size(), " canaries; expected at least 10, and hundreds to show anything");
  return {.kind = proof::AuditKind::model,
          .canaries = std::ssize(scores),
          .included = std::count(included.begin(), included.end(), true),
          .delta = audit.budget.delta,
          .confidence = audit.audit.confidence,
          .claimed_epsilon = what.claimed_epsilon,
          .bound = proof::one_run_bound(scores, included, audit.budget.delta, audit.audit.confidence),
          .unit = has_users ? "user" : "record"};
}

std::string claim(proof::Verdict verdict) {
  switch (verdict) {
    case proof::Verdict::wrong: return coloured("the claim is WRONG", Colour::red);
    case proof::Verdict::stands: return "the claim stands";
    case proof::Verdict::not_refuted: return "the claim is not refuted";
    case proof::Verdict::nothing: break;
  }
  return "nothing is shown";
}

template <class Result>
std::string ending(const Result& result) {
  const auto why = result.why();
  return text(claim(result.verdict()), why.empty() ? "" : ": ", why);
}

template <class Result>
std::string assumptions(const Result& result) {
  std::string out = "assumed:";
  for (const auto& line : result.assumes()) out += text("\n- ", line);
  return out;
}

void print(const proof::AuditResult& result, const proof::Audit& what) {
  Table table({"", "mu", "epsilon"});
  table.add({"claimed", significant(result.claimed_mu, 4), significant(result.claimed_epsilon, 4)});
  table.add({"at least", significant(result.lower_mu, 4), significant(result.lower_epsilon, 4)});
  std::printf(
      "%s\n%s\n%s\n%s\n", table.str().c_str(),
      text("sigma ", what.dp.sigma, ", ", to_string(what.model.dtype), "; delta ", result.delta, ", confidence ",
           result.confidence, "; ", result.runs, " runs of each world: ", result.false_alarms, " false alarms, ",
           result.misses, " misses; the canary is ", significant(result.canary, 4), " clip norms")
          .c_str(),
      assumptions(result).c_str(), ending(result).c_str());
}

void print(const proof::TrainingAuditResult& result, const proof::Audit& what) {
  Table table({"", "epsilon"});
  table.add({"claimed", significant(result.claimed_epsilon, 4)});
  table.add({"at least, by the curve", significant(result.lower_epsilon, 4)});
  table.add({"at least, by the definition", significant(result.definition_epsilon, 4)});
  Table rules({"rule", "false alarms", "misses"});
  for (const auto& rule : result.rules) rules.add({rule.name, text(rule.false_alarms), text(rule.misses)});
  std::printf("%s\n%s\n%s\n%s\n%s\n", table.str().c_str(), rules.str().c_str(),
              text(result.trainings, " trainings of each world: ", result.steps, " steps, sample rate ",
                   result.sample_rate, ", sigma ", result.sigma, ", ", to_string(what.model.dtype), "; delta ",
                   result.delta, ", confidence ", result.confidence, "; the canary is ",
                   significant(result.shortest, 4), " to ", significant(result.longest, 4), " clip norms")
                  .c_str(),
              assumptions(result).c_str(), ending(result).c_str());
}

std::string text_of(const proof::CanaryAuditResult& result) {
  Table table({"", "epsilon"});
  table.add({"claimed", significant(result.claimed_epsilon, 4)});
  table.add({"at least", significant(result.bound.epsilon, 4)});
  table.add({"at least, if all guesses were right", significant(result.bound.largest, 4)});
  const auto& guesses = result.bound.guesses;
  return text(table.str(), "\n", guesses.right, " of ", guesses.made, " guesses are right; ", result.included, " of ",
              result.canaries, " canaries are included; delta ", result.delta, ", confidence ", result.confidence, "\n",
              assumptions(result), "\n", ending(result));
}

template <class Result>
int finish(const Result& result, const CommandLine& line, const Config& config, Readers readers = Readers::by_umask) {
  if (!line.json_file.empty()) {
    auto json = result.json();
    json["config"] = without_folders(json_values(config));
    write_output(line.json_file, json.dump(2) + "\n", readers);
  }
  return result.pass() ? 0 : 1;
}

struct AuditVerb final : LineVerb {
  proof::Audit what;
  FinishedModel finished;
  Config config;
  train::TrainConfig train;  // of a recipe, which --config may be; not used
  Config recipe_config;

  AuditVerb()
      : LineVerb(
            "audit",
            "Audits of the privacy claim with canaries. --kind step: an observer who sees the whole noisy sum of one "
            "step "
            "decides whether a canary was in the batch; training: the same for every step of whole trainings, against "
            "the "
            "composed "
            "epsilon; one_run: many canaries in one training; model: the losses of a trained model.\nThe success of "
            "the observer gives a lower bound of epsilon. If it is above the claim, the claim is wrong (exit status "
            "1).",
            "shade audit --ranks 2 --shard zero3\n  shade audit --fault half_noise      (must fail)\n"
            "  shade audit --kind training --lora-rank 4 --dtype bf16 --max-grad-norm 0.01\n"
            "  shade audit --kind one_run --canaries 400 --steps 8\n"
            "  shade audit --kind model --trained runs/private --included in --excluded out --claimed-epsilon 3") {
    what.declare(config);
    config.add("audit", finished);
    config.add("comm", what.comm);
    train::declare_recipe(recipe_config, what.trained, train);
    config.read_also(recipe_config);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_audit() { return std::make_unique<AuditVerb>(); }

int AuditVerb::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  line.require_effects();
  if (finished.splits()) return split_canaries(finished);
  if (finished.asked()) {
    const auto result = audit_finished(finished, what);
    std::printf("%s\n", text_of(result).c_str());
    return finish(result, line, config, Readers::owner);  // what it says follows from the records of a run
  }
  const auto place = expected_place(line);
  const auto run = train::resolve(what, config.stated(), place.size);
  what = *run;  // conditions of options are about what was decided
  const auto strategy = run.decisions().of(train::Topic::strategy);
  line.require_effects({{kModelKind, what.model.model_kind(what.sizes)}, {kRanks, ranks_fact(place)}});
  if (!on_gpus(what.comm))
    train::require_memory(
        train::model_states(models::size_of(what.model.model, what.sizes, what.model.options()),
                            {.shard = what.shard, .optim = {}, .ranks = place.size, .local_ranks = place.local_size}));
  if (const auto status = start_ranks(line, "audit", arguments, what.comm)) return *status;
  int status = 1;
  in_world(line.ranks, what.comm, [&](comm::World& world) {
    use_threads(1, {});  // a small model: a second thread only waits
    say_device(world);
    if (world.rank() == 0 && !strategy.empty()) std::printf("%s\n", strategy.c_str());
    const auto say = [&](const auto& result, const auto& printed) {
      if (world.rank() == 0) printed(result);
      status = world.rank() == 0 ? finish(result, line, config) : result.pass() ? 0 : 1;
    };
    switch (what.audit.kind) {
      case proof::AuditKind::step:
        return say(proof::audit(world, what), [&](const auto& result) { print(result, what); });
      case proof::AuditKind::training:
        return say(proof::audit_training(world, what), [&](const auto& result) { print(result, what); });
      case proof::AuditKind::one_run:
      case proof::AuditKind::model:
        return say(proof::audit_canaries(world, what),
                   [](const auto& result) { std::printf("%s\n", text_of(result).c_str()); });
    }
  });
  return status;
}

}  // namespace shade::cli
