#include "shade/train/spec/recipe.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/hash/digest.h"
#include "shade/io/weight_folder.h"
#include "shade/models/weights.h"
#include "shade/shard/config.h"
#include "shade/train/budget/budget.h"
#include "shade/train/feed/records.h"
#include "shade/train/step/job.h"
#include "shade/train/step/job_settings.h"
#include "shade/train/step/step.h"

namespace shade::train {

void declare_recipe(Config& config, RunSpec& run, TrainConfig& train) {
  config.add("model", run.model);
  config.add("model", run.sizes);
  config.add("data", run.data);
  config.add("shard", run.shard);
  config.add("optim", run.optim);
  config.add("dp", run.dp);
  config.add("dp", run.budget);
  Fields fields("train", config.fields());
  train.declare(fields, run.work, run.budget);
  config.add("comm", run.comm);
}

namespace {

// JSON and TOML write values alike, except for the one control character that JSON leaves as it is.
std::string toml_of(const Json& value) { return join(split(value.dump(), '\x7f'), "\\u007f"); }

// What follows from another field is a comment: both would be two words on one thing, which may be refused.
std::string follows(const Json& all, const std::string& name, const Json& value) {
  const auto& dp = all.at("dp");
  if (name == "sigma" && dp.at("target_epsilon") > 0.0) return "# found for target_epsilon: ";
  if (name == "micro_batch" && all.at("train").at("grad_accum") > 0) return "# from grad_accum: ";
  if (name == "grad_clip" && dp.at("dp") == "none" && dp.at("max_grad_norm") == value) return "# from max_grad_norm: ";
  return "";
}

}  // namespace

std::string print_toml(const Json& recipe) {
  std::string out;
  for (const auto& [section, fields] : recipe.items()) {
    out += text(out.empty() ? "" : "\n", "[", section, "]\n");
    for (const auto& [name, value] : fields.items()) {
      if (name == "resume_from" || name == "restart") continue;  // of one start, not of the run
      out += text(follows(recipe, name, value), name, " = ", toml_of(value), "\n");
    }
  }
  return out;
}

// What a recipe means. Random weights and synthetic data are used only on request. A run that asks for no privacy is
// ordinary training, which the first lines of the run state.

namespace {

namespace fs = std::filesystem;

// Private or not, and why.
std::string decide_privacy(Recipe& recipe, const Given& given) {
  auto& dp = recipe.dp;
  const auto asked = asks_for_privacy(recipe, given);
  const bool stated = given("dp.dp");
  if (!stated && !asked.empty()) dp.dp = dp.is_private() ? dp.dp : privacy::MethodName::automatic;
  if (dp.is_private())
    return stated || asked.empty() ? text("private: --dp ", to_string(dp.dp), " was given")
                                   : text("private: ", asked, " was given");
  if (stated) return text("dp is none", asked.empty() ? "" : text(", and ", asked, " has no effect"));
  return "--dp was not given, so this is ordinary training without differential privacy";
}

// Of a run that is not private: --max-grad-norm clips the whole gradient, and --grad-clip is another name for that. A
// recipe that states dp = none may have both, since a private run has a use for the first.
std::string choose_clipping(Recipe& recipe, const Given& given) {
  const auto [dp, optim] = std::tie(recipe.dp, recipe.optim);
  const bool stated = given("optim.grad_clip");
  SHADE_REQUIRE(!stated || given("dp.dp") || !given("dp.max_grad_norm") || optim.grad_clip == dp.max_grad_norm,
                "without --dp, --max-grad-norm ", dp.max_grad_norm,
                " is ordinary gradient clipping, but --grad-clip is ", optim.grad_clip,
                "; drop one of them, or train privately with --dp auto");
  if (!stated) optim.grad_clip = dp.max_grad_norm;
  return optim.grad_clip > 0 ? text("ordinary gradient clipping at ", optim.grad_clip) : "gradients are not clipped";
}

// Epochs are what people expect, and Poisson batches are what an accountant needs.
void choose_sampler(Recipe& recipe, const Given& given) {
  if (given("dp.sampler")) return;
  const bool poisson = recipe.dp.is_private() || recipe.budget.sample_rate > 0;
  recipe.budget.sampler = poisson ? privacy::Sampler::poisson : privacy::Sampler::shuffled;
}

void check_plain(const Recipe& recipe) {
  require_noise_for(recipe.optim, /*is_private=*/false);
  SHADE_REQUIRE(recipe.budget.target_epsilon == 0 && recipe.budget.max_epsilon == 0,
                "an epsilon is asked of a run that is not private; choose how samples are clipped, e.g. --dp auto, or "
                "ask for none: --target-epsilon 0 --max-epsilon 0");
  SHADE_REQUIRE(recipe.budget.data_ledger.empty(), "the data ledger ", recipe.budget.data_ledger,
                " counts private steps, and this run is not private: what it shows of the data has no bound; add --dp "
                "auto, or drop --data-ledger");
}

void check_unit(const Recipe& recipe) {
  const bool packed = recipe.data.packing == data::Packing::packed;
  const auto unit = recipe.budget.privacy_unit;
  SHADE_REQUIRE(!packed || unit == privacy::PrivacyUnit::window,
                "packed data in a private run: epsilon would hold for \"", adjacency(privacy::PrivacyUnit::window),
                "\", not for a text or a person; choose --packing records, or accept that with --privacy-unit window");
  SHADE_REQUIRE(packed || unit != privacy::PrivacyUnit::window, "--privacy-unit ", to_string(unit),
                " is for packed data, and each sample here is a record; drop it, or choose --packing packed");
  const auto most = recipe.budget.max_records_per_user;
  SHADE_REQUIRE(most == 0 || unit == privacy::PrivacyUnit::user, "--max-records-per-user ", most,
                " is for runs that protect users; add --privacy-unit user, or drop it");
  if (unit != privacy::PrivacyUnit::user) return;
  SHADE_REQUIRE(!recipe.work.synthetic,
                "--privacy-unit user needs records that name their users, and synthetic ones don't; set --data-folder");
  SHADE_REQUIRE(!recipe.data.fields.user.empty(),
                "--privacy-unit user needs the field of a record that names its user; set --user-field FIELD");
  SHADE_REQUIRE(most > 0,
                "--privacy-unit user needs --max-records-per-user K, the most records of a user that one step uses: "
                "memory grows with it, and epsilon doesn't depend on it (8 is a usual choice)");
}

// The gradient of each record is clipped on its own, so a record counts as one whatever its length; and the number of
// tokens that were drawn is not public.
void choose_loss_mean(Recipe& recipe) {
  using models::LossMean;
  auto& model = recipe.model;
  const bool is_private = recipe.dp.is_private();
  const auto standard = is_private ? LossMean::record : LossMean::token;
  model.chosen_mean = model.loss_mean == LossMean::automatic ? standard : model.loss_mean;
  SHADE_REQUIRE(
      !is_private || model.chosen_mean == LossMean::record,
      "--loss-mean token in a private run: each record's or user's gradient is clipped by itself, and the number "
      "of tokens in a batch is not public; drop it, or set --loss-mean record");
}

void check_private(const Recipe& recipe, const Given& given) {
  const auto& [dp, budget] = std::tie(recipe.dp, recipe.budget);
  SHADE_REQUIRE(dp.sigma == 0 || budget.target_epsilon == 0 || !given("dp.sigma"), "sigma ", dp.sigma,
                " and target_epsilon ", budget.target_epsilon,
                " are both set, and each decides the noise; drop one of them, or set it to 0");
  require_sound(/*repeatable=*/!dp.clip.norm_timing, recipe.shard.reduce_dtype);
  SHADE_REQUIRE(budget.accountant != privacy::Accountant::gdp,
                "--accountant gdp under-reports and is only a diagnostic (shade account); choose prv or rdp");
  SHADE_REQUIRE(budget.sampler != privacy::Sampler::shuffled || (budget.target_epsilon == 0 && budget.max_epsilon == 0),
                "no accountant supports shuffled batches, so there is no epsilon; choose --sampler poisson");
  if (!budget.data_ledger.empty()) {
    const auto why = dp.seed() ? "its noise has a seed" : no_epsilon(recipe);
    SHADE_REQUIRE(why.empty(), "the data ledger ", budget.data_ledger, " can't count what this run spends: ", why,
                  "; fix that, or drop --data-ledger");
  }
  check_unit(recipe);
  SHADE_REQUIRE(
      recipe.data.max_records == 0, "max_records is ", recipe.data.max_records,
      " in a private run: one additional record would displace another one, so two records would change where "
      "epsilon counts one; drop it (--max-records 0), and name a folder that has only the records to train "
      "on");
}

// Where training starts.
std::string choose_weights(Recipe& recipe) {
  auto& model = recipe.model;
  if (model.is_own()) return model.weights.empty() ? "of the program" : "from " + model.weights;
  models::require_known(model.model);
  const auto folder = models::model_folder(model.model);
  SHADE_REQUIRE(model.weights.empty() || !model.from_scratch, "from_scratch is set, and so are the weights ",
                model.weights, "; drop one of them");
  if (model.from_scratch) return text("random (from scratch, seed ", recipe.work.seed, ")");
  if (model.weights.empty() && folder && io::has_weights(*folder)) model.weights = folder->string();
  const auto hub = models::describe_hub_name(model.model);
  SHADE_REQUIRE(!model.weights.empty() || folder || hub.empty(), "no weights to start from: ", hub,
                "; random weights are used only if asked for (--from-scratch)");
  SHADE_REQUIRE(
      !model.weights.empty(), "no weights to start from: ", model.model,
      folder ? " has a config.json, and no model.safetensors or its index" : " is the name of an architecture",
      "; name weights (--weights FOLDER), or ask for random ones (--from-scratch)");
  models::require_same_function(model.model, recipe.sizes, model.options(), model.weights);
  return text("from ", model.weights,
              fs::exists(model.weights) && !models::config_folder(model.weights)
                  ? text("; no config.json is beside them: ", model.model, " is assumed to be their architecture")
                  : "");
}

// What transformers would do with the model's config.json, and is not done here.
std::string left_out(const Recipe& recipe) {
  if (recipe.model.is_own()) return {};
  const auto folder = models::model_folder(recipe.model.model);
  const auto fields = folder ? models::not_trained_with(*folder) : std::vector<std::string>();
  return fields.empty() ? "" : text("; of the model's config.json not applied in training: ", join(fields, ", "));
}

// The tokenizer that the model was trained with, where it is known.
std::string choose_tokenizer(Recipe& recipe) {
  const auto [data, model] = std::tie(recipe.data, recipe.model);
  if (data.data_folder.empty() || model.is_own()) return {};
  const auto folder = models::model_folder(model.model).value_or("").string();
  for (const auto& place : {folder, model.weights})
    if (data.tokenizer.empty() && fs::exists(fs::path(place) / "tokenizer.json")) data.tokenizer = place;
  return data.tokenizer.empty() || data.tokenizer == "bytes" ? "every byte is a token"
                                                             : "tokenizer in " + data.tokenizer;
}

// As many micro-batches of each rank as were asked for make the batch of all ranks.
void choose_micro_batch(Recipe& recipe, const Given& given, int ranks) {
  auto& work = recipe.work;
  SHADE_REQUIRE(!given("train.micro_batch"), "grad_accum ", work.grad_accum, " and micro_batch ",
                given.word("train.micro_batch"), " are both set, and each decides the other; drop one of them");
  const auto parts = work.grad_accum * ranks;
  work.micro_batch = std::to_string((work.batch_size + parts - 1) / parts);
}

bool lies_in(const fs::path& inner, const fs::path& outer) {
  const auto below = fs::weakly_canonical(inner).lexically_relative(fs::weakly_canonical(outer));
  return !below.empty() && *below.begin() != "..";
}

// A run writes, replaces and deletes files below its folders.
void check_places(const Recipe& recipe) {
  const auto& train = recipe.train;
  // Reading the data goes through all folders below, so what a run writes there would be read as records.
  const auto& data = recipe.data.data_folder;
  if (fs::is_directory(data) && !recipe.model.is_own())
    for (const auto& [option, place] : {std::pair("--output", train.output),
                                        {"--export", train.export_folder},
                                        {"--export-adapter", train.adapter_folder}})
      SHADE_REQUIRE(place.empty() || !lies_in(place, data), option, " ", place, " lies in the data folder ", data,
                    ": the files of the run would be read as records; choose another place for ", option);
  const auto folder = models::model_folder(recipe.model.model);
  for (const auto& source : {folder ? folder->string() : std::string(), recipe.model.weights}) {
    if (!fs::is_directory(source)) continue;
    for (const auto& [option, place] : {std::pair("--output", train.output),
                                        {"--export", train.export_folder},
                                        {"--export-adapter", train.adapter_folder}})
      SHADE_REQUIRE(place.empty() || (!lies_in(place, source) && !lies_in(source, place)), option, " ", place,
                    " and the model's folder ", source, ": one contains the other; choose another place for ", option);
  }
}

// A setting that isn't here may change from start to start of one run: how long it is, how it is computed and saved.
struct Section {
  const char* name;
  std::vector<const char*> fields;
};
const std::vector<Section>& naming_sections() {
  static const std::vector<Section> sections{
      {"model",
       {"model", "weights", "from_scratch", "task", "lora_rank", "lora_alpha", "lora_targets", "hidden_dim",
        "num_layers", "num_heads", "num_kv_heads", "ffn_dim", "vocab_size", "image_size", "patch_size", "num_classes"}},
      {"data", {"data_folder", "tokenizer", "packing", "loss_on"}},
      {"dp", {"dp", "clip_style", "max_grad_norm", "delta", "target_epsilon", "privacy_unit"}},
      {"optim", {"optimizer", "lr", "schedule"}},
      {"train", {"synthetic", "records", "batch_size", "seq_length", "seed"}}};
  return sections;
}

// The last name of a path, or of a name on the hub, without its ending and without what a shell would ask about.
std::string named_after(const std::string& path) {
  auto name = (std::filesystem::path(path) / "").parent_path().filename().string();
  for (const auto* ending : {".jsonl", ".json", ".csv", ".parquet", ".arrow", ".txt"})
    if (name.ends_with(ending) && name.size() > std::string_view(ending).size())
      name.resize(name.size() - std::string_view(ending).size());
  for (auto& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  return name.substr(0, 40);
}

// "llama-nano-records-1f2e3d4c": model, data, and a hash of the settings that make an experiment another one. So the
// same command finds its run again, with more --steps too, on every rank, and another experiment has its own directory.
std::string run_name(Recipe& recipe) {
  Config all;
  recipe.declare(all);
  const auto config = json_values(all);
  auto settings = Json::array();
  for (const auto& [section, fields] : naming_sections())
    for (const auto* field : fields) settings.push_back(config.at(section).at(field));
  if (config.at("dp").at("target_epsilon") == 0.0) settings.push_back(config.at("dp").at("sigma"));  // else it follows
  const auto folder = config.at("data").at("data_folder").get<std::string>();
  return text(
      named_after(config.at("model").at("model").get<std::string>()), "-",
      folder.empty() ? "synthetic" : named_after(folder), "-",
      hash::to_hex(hash::digest_of(settings.dump(-1, ' ', false, Json::error_handler_t::replace))).substr(0, 8));
}

}  // namespace

std::string asks_for_privacy(const RunSpec& run, const std::function<bool(const std::string&)>& given) {
  const auto& [dp, budget] = std::tie(run.dp, run.budget);
  for (const auto& [key, asks] : {std::pair("dp.sigma", dp.sigma > 0),
                                  {"dp.target_epsilon", budget.target_epsilon > 0},
                                  {"dp.max_epsilon", budget.max_epsilon > 0},
                                  {"dp.delta", true},
                                  {"dp.privacy_unit", true},
                                  {"dp.max_records_per_user", budget.max_records_per_user > 0},
                                  {"dp.clip_style", true},
                                  {"dp.accountant", true},
                                  {"dp.noise_seed", dp.noise_seed >= 0},
                                  {"dp.max_batch", budget.max_batch > 0},
                                  {"dp.population", budget.population > 0},
                                  {"dp.data_ledger", !budget.data_ledger.empty()},
                                  {"train.keep_key", budget.keep_key}})
    if (asks && given(key)) return std::string(key).substr(std::string_view(key).find('.') + 1);
  return {};
}

void set_schedule_length(RunSpec& run) {
  if (run.optim.schedule != optim::Shape::constant && run.optim.total_steps == 0)
    run.optim.total_steps = run.work.steps;
}

Decisions decide(Recipe& recipe, const Given& given, int ranks) {
  const auto [model, work, dp] = std::tie(recipe.model, recipe.work, recipe.dp);
  Decisions out;
  model.use_folder();
  out.add(Topic::strategy, shard::choose_strategy(recipe.shard, given, ranks));
  set_schedule_length(recipe);
  SHADE_REQUIRE(work.micro_batch == "auto" || parse_integer(work.micro_batch).value_or(0) > 0, "micro_batch is '",
                work.micro_batch, "'; expected auto or a number of samples from 1");
  if (work.grad_accum > 0) choose_micro_batch(recipe, given, ranks);
  SHADE_REQUIRE(
      recipe.train.adapter_folder.empty() || model.lora_rank > 0,
      "adapter_folder is set, and the model has no adapters; set --lora-rank, or --export for the whole model");
  SHADE_REQUIRE(!work.synthetic || recipe.data.data_folder.empty(),
                "synthetic data is asked for, and so is the data folder ", recipe.data.data_folder,
                "; drop one of them (--synthetic false)");
  const auto why = decide_privacy(recipe, given);
  out.add(Topic::privacy, dp.is_private() ? why : why + "; " + choose_clipping(recipe, given));
  choose_sampler(recipe, given);
  require_set_share(recipe);
  if (dp.is_private())
    check_private(recipe, given);
  else
    check_plain(recipe);
  choose_loss_mean(recipe);
  if (recipe.budget.max_epsilon == 0) recipe.budget.max_epsilon = recipe.budget.target_epsilon;
  out.add(Topic::weights, choose_weights(recipe) + left_out(recipe));
  out.add(Topic::tokenizer, choose_tokenizer(recipe));
  if (model.weights.empty() && !model.is_own())
    out.add(Topic::vocabulary, fit_vocabulary(recipe.sizes, model.model, recipe.data, model.options()));
  if (recipe.train.output.empty()) recipe.train.output = "runs/" + run_name(recipe);
  check_places(recipe);
  return out;
}

void apply(Recipe& recipe, const DataFacts& facts) {
  if (facts.classes) recipe.data.classes = *facts.classes;
  if (facts.num_classes) recipe.sizes.num_classes = *facts.num_classes;
  recipe.dp.sigma = facts.sigma;
}

}  // namespace shade::train
