// Recipes, and the small rules a run is made of.
#include "shade/train/spec/recipe.h"
#include "shade/base/json.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "shade/train/budget/budget.h"
#include "shade/train/feed/records.h"
#include "tests/io/scratch.h"
#include "tests/support/fault.h"
#include "tests/support/process.h"

namespace shade::train {
namespace {

std::string fault_of(const std::string& toml) {
  return test::fault([&] {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    config.read_toml_text(toml, "recipe");
    resolve(recipe, config.stated());
  });
}

bool has(const std::string& words, const std::string& part) { return words.find(part) != std::string::npos; }

// A recipe whose weights are random, and what more it says.
const std::string kRandom = "[model]\nfrom_scratch = true\n";

// Read and resolved; what it means is a recipe of the same meaning.
struct Meant {
  Recipe recipe;
  Decisions decisions;
  Json json;

  explicit Meant(const std::string& toml) {
    Config config;
    recipe.declare(config);
    config.read_toml_text(toml, "recipe");
    const auto run = resolve(recipe, config.stated());
    EXPECT_EQ(resolve(*run, config.stated()).json(), run.json());
    recipe = *run;
    decisions = run.decisions();
    json = run.json();
  }
};

TEST(Recipe, IsWrittenDownAsItReadsBack) {
  Recipe recipe, again;
  Config config, copy;
  recipe.declare(config);
  again.declare(copy);
  config.read_toml_text(
      "[model]\nmodel = \"dit-nano\"\nlora_targets = [\"a\", \"b\"]\n[optim]\nlr = 1e-5\n"
      "[data]\ndata_folder = \"\\u0000\\t\\u007f\\u009f\\\"\"\n"
      "[train]\nmemory_limit = \"64MiB\"\n[comm]\npeer_timeout = \"1500ms\"\n",
      "recipe");
  copy.read_toml_text(print_toml(json_values(config)), "copy");
  EXPECT_EQ(json_values(config), json_values(copy));
  EXPECT_EQ(again.model.lora_targets, (std::vector<std::string>{"a", "b"}));
}

TEST(Recipe, AStrategyIsChosenWhereNoneIsStated) {
  const auto chosen = [](const std::string& more, int ranks) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    config.read_toml_text(kRandom + more, "recipe");
    const auto run = resolve(recipe, config.stated(), ranks);
    return std::pair(to_string(run->shard.shard), run.decisions().of(Topic::strategy));
  };
  using Chosen = std::pair<std::string, std::string>;
  EXPECT_EQ(chosen("", 1), Chosen("none", ""));
  EXPECT_EQ(chosen("", 2), Chosen("zero3", "zero3: there are 2 ranks, and --shard was not given"));
  EXPECT_EQ(chosen("[dp]\ndp = \"ghost_fsdp\"\n", 1),
            Chosen("zero3", "zero3: ghost_fsdp is sharded fully, and --shard was not given"));
  EXPECT_EQ(chosen("[dp]\ndp = \"ghost\"\n", 1), Chosen("none", ""));
  EXPECT_EQ(chosen("[dp]\ndp = \"flash_fsdp\"\n[shard]\nshard = \"ddp\"\n", 2), Chosen("ddp", "")) << "as stated";
}

TEST(Recipe, AccumulationDecidesTheMicroBatch) {
  const auto micro_batch = [](int64_t batch, int64_t parts, int ranks) {
    Recipe recipe, again;
    Config config, copy;
    recipe.declare(config);
    again.declare(copy);
    config.read_toml_text(kRandom + text("[train]\nglobal_batch_size = ", batch, "\ngrad_accum = ", parts, "\n"),
                          "recipe");
    const auto run = resolve(recipe, config.stated(), ranks);
    copy.read_toml_text(print_toml(run.json()), "copy");
    EXPECT_EQ(resolve(again, copy.stated(), ranks)->work.micro_batch, run->work.micro_batch)
        << "what is written reads back";
    return run->work.micro_batch;
  };
  EXPECT_EQ(micro_batch(64, 4, 2), "8");
  EXPECT_EQ(micro_batch(65, 4, 2), "9") << "never more parts than were asked for";
  EXPECT_EQ(micro_batch(64, 0, 2), "auto");
  EXPECT_EQ(fault_of(kRandom + "[train]\ngrad_accum = 2\nmicro_batch = 4\n"),
            "grad_accum 2 and micro_batch 4 are both set, and each decides the other; drop one of them");
}

TEST(Recipe, LossMeanFollowsPrivacy) {
  using models::LossMean;
  const auto chosen = [](const std::string& more) { return Meant(kRandom + more).recipe.model.chosen_mean; };
  EXPECT_EQ(chosen(""), LossMean::token);
  EXPECT_EQ(chosen("loss_mean = \"record\"\n"), LossMean::record);
  EXPECT_EQ(chosen("[dp]\ndp = \"auto\"\n"), LossMean::record);
  EXPECT_EQ(fault_of(kRandom + "loss_mean = \"token\"\n[dp]\ndp = \"auto\"\n"),
            "--loss-mean token in a private run: each record's or user's gradient is clipped by itself, and the "
            "number of tokens in a batch is not public; drop it, or set --loss-mean record");
}

TEST(Recipe, RefusesWhatCantBeKept) {
  EXPECT_EQ(
      fault_of("[dp]\ndp = \"none\"\ntarget_epsilon = 8\n"),
      "an epsilon is asked of a run that is not private; choose how samples are clipped, e.g. --dp auto, or ask for "
      "none: --target-epsilon 0 --max-epsilon 0");
  EXPECT_EQ(fault_of("[dp]\ndp = \"flash\"\nsampler = \"shuffled\"\ntarget_epsilon = 8\n"),
            "no accountant supports shuffled batches, so there is no epsilon; choose --sampler poisson");
  const std::string kPrivate = "[dp]\ndp = \"auto\"\n";
  EXPECT_NE(fault_of(kPrivate + "[shard]\nreduce_dtype = \"bf16\"\n").find("are reduced in fp32"), std::string::npos);
  EXPECT_NE(fault_of(kPrivate + "accountant = \"gdp\"\n").find("under-reports"), std::string::npos);
  EXPECT_NE(fault_of(kPrivate + "norm_timing = true\n").find("another step with the same noise"), std::string::npos);
  EXPECT_EQ(fault_of(kRandom + "[shard]\nreduce_dtype = \"bf16\"\n"), "no error");
  EXPECT_EQ(fault_of("[train]\nmicro_batch = \"many\"\n"),
            "micro_batch is 'many'; expected auto or a number of samples from 1");
  EXPECT_EQ(fault_of(kRandom + "[train]\nsteps = 10\n[optim]\nschedule = \"cosine\"\n"), "no error");
}

// Who sets how much noise or how much epsilon expects protection.
TEST(Recipe, ASettingOfPrivacyMakesARunPrivate) {
  for (const std::string setting :
       {"sigma = 1.0", "delta = 1e-5", "target_epsilon = 8", "max_epsilon = 8", "clip_style = \"flat\"",
        "accountant = \"rdp\"", "noise_seed = 0", "max_batch = 64", "population = 5000", "keep_key = true"}) {
    const Meant implied(kRandom + (setting.starts_with("keep_key") ? "[train]\n" : "[dp]\n") + setting + "\n");
    EXPECT_EQ(implied.recipe.dp.dp, privacy::MethodName::automatic) << setting;
    EXPECT_EQ(implied.decisions.of(Topic::privacy),
              text("private: ", setting.substr(0, setting.find(' ')), " was given"));
  }
  for (const std::string setting : {"[dp]\nsigma = 0", "[dp]\nnoise_seed = -1", "[dp]\nmax_batch = 0",
                                    "[dp]\npopulation = 0", "[train]\nkeep_key = false"})
    EXPECT_FALSE(Meant(kRandom + setting + "\n").recipe.dp.is_private()) << setting;
  const Meant none(kRandom + "[dp]\ndp = \"none\"\nsigma = 1\ndelta = 1e-5\n");
  EXPECT_FALSE(none.recipe.dp.is_private());
  EXPECT_EQ(none.decisions.of(Topic::privacy), "dp is none, and sigma has no effect; ordinary gradient clipping at 1");
  EXPECT_FALSE(Meant(kRandom + "[dp]\nsampler = \"shuffled\"\n").recipe.dp.is_private());
  EXPECT_EQ(Meant(kRandom + "[dp]\ndp = \"ghost\"\nsigma = 2\n").recipe.dp.dp, privacy::MethodName::ghost);
}

TEST(Recipe, AClipNormAloneIsGradientClipping) {
  const Meant clipped(kRandom + "[dp]\nmax_grad_norm = 0.5\n");
  EXPECT_FALSE(clipped.recipe.dp.is_private());
  EXPECT_EQ(clipped.recipe.optim.grad_clip, 0.5);
  EXPECT_TRUE(has(clipped.decisions.of(Topic::privacy), "ordinary gradient clipping at 0.5"));
  EXPECT_EQ(Meant(kRandom + "[dp]\nmax_grad_norm = 0.5\ndp = \"auto\"\n").recipe.optim.grad_clip, 0);
  EXPECT_EQ(Meant(kRandom + "[dp]\nmax_grad_norm = 0.5\ndp = \"none\"\n").recipe.optim.grad_clip, 0.5);
  EXPECT_TRUE(has(fault_of(kRandom + "[dp]\nmax_grad_norm = 0.5\n[optim]\ngrad_clip = 1\n"), "drop one of them"));
}

TEST(Recipe, ClipsAtOneUnlessAskedOtherwise) {
  EXPECT_EQ(Meant(kRandom).recipe.optim.grad_clip, 1);
  EXPECT_EQ(Meant(kRandom + "[optim]\ngrad_clip = 0.25\n").recipe.optim.grad_clip, 0.25);
  EXPECT_EQ(Meant(kRandom + "[dp]\nmax_grad_norm = 0\n").recipe.optim.grad_clip, 0);
  EXPECT_TRUE(
      has(Meant(kRandom + "[optim]\ngrad_clip = 0\n").decisions.of(Topic::privacy), "gradients are not clipped"));
  EXPECT_EQ(Meant(kRandom + "[dp]\ndp = \"auto\"\n").recipe.optim.grad_clip, 0) << "a private run clips samples";
  EXPECT_EQ(Meant(kRandom + "[dp]\ndp = \"auto\"\n").recipe.dp.max_grad_norm, 1);
  // As a recipe.toml may have it: every field with its value.
  EXPECT_EQ(Meant(kRandom + "[dp]\ndp = \"none\"\nmax_grad_norm = 1\n[optim]\ngrad_clip = 0\n").recipe.optim.grad_clip,
            0);
  EXPECT_TRUE(has(fault_of(kRandom + "[dp]\nmax_grad_norm = -1\n"), "expected at least 0"));
  // What a run writes down can be made private.
  const auto written = print_toml(Meant(kRandom).json);
  EXPECT_TRUE(has(written, "# from max_grad_norm: grad_clip = 1.0\n"));
  Recipe recipe;
  Config config;
  recipe.declare(config);
  config.read_toml_text(written, "recipe");
  config.set("dp.dp", "auto");
  EXPECT_EQ(resolve(recipe, config.stated())->optim.grad_clip, 0);
}

TEST(Recipe, BatchesAreEpochsUnlessPrivate) {
  using privacy::Sampler;
  const auto sampler = [](const std::string& toml) { return Meant(kRandom + toml).recipe.budget.sampler; };
  EXPECT_EQ(sampler(""), Sampler::shuffled);
  EXPECT_EQ(sampler("[dp]\ndp = \"none\"\nsigma = 1\n"), Sampler::shuffled);
  for (const auto* asked : {"dp = \"auto\"", "sigma = 1.0", "target_epsilon = 8", "max_batch = 64"})
    EXPECT_EQ(sampler(text("[dp]\n", asked, "\n")), Sampler::poisson) << asked;
  EXPECT_EQ(sampler("[dp]\nsample_rate = 0.1\n"), Sampler::poisson) << "epochs have no rate";
  for (const auto* named : {"poisson", "shuffled"})
    for (const auto* dp : {"auto", "none"})
      EXPECT_EQ(to_string(sampler(text("[dp]\ndp = \"", dp, "\"\nsampler = \"", named, "\"\n"))), named) << dp;
  // What a run writes down says what was resolved, and reads back the same.
  const Meant plain(kRandom);
  EXPECT_TRUE(has(print_toml(plain.json), "sampler = \"shuffled\"\n"));
  const Meant again(print_toml(plain.json));
  EXPECT_EQ(again.json, plain.json);
}

TEST(Recipe, SigmaAndTargetEpsilonAreOneTooMany) {
  const auto said = fault_of(kRandom + "[dp]\nsigma = 2\ntarget_epsilon = 8\n");
  EXPECT_EQ(said,
            "sigma 2 and target_epsilon 8 are both set, and each decides the noise; drop one of them, or set it to 0");
  EXPECT_EQ(fault_of(kRandom + "[dp]\nsigma = 0\ntarget_epsilon = 8\n"), "no error");
  // What a run writes down is a recipe again, although the sigma that was found is in it.
  Recipe recipe;
  Config config;
  recipe.declare(config);
  config.read_toml_text(kRandom + "[dp]\ntarget_epsilon = 8\n", "recipe");
  const auto written = print_toml(resolve(recipe, config.stated()).with(DataFacts{.sigma = 0.6}).json());
  EXPECT_TRUE(has(written, "# found for target_epsilon: sigma = 0.6\n"));
  EXPECT_EQ(fault_of(written), "no error");
}

// The config.json of the model that a recipe trains if it names none.
std::string nano_config() { return models::make_model("llama-nano", {}, {})->config_json(); }

TEST(Recipe, RandomWeightsAreAskedFor) {
  EXPECT_EQ(fault_of("[model]\nmodel = \"llama-nano\"\n"),
            "no weights to start from: llama-nano is the name of an architecture; name weights (--weights FOLDER), or "
            "ask for random ones (--from-scratch)");
  EXPECT_TRUE(has(fault_of(kRandom + "weights = \"x\"\n"), "from_scratch is set, and so are the weights x"));
  const io::Scratch folder;
  const auto model = text("[model]\nmodel = \"", folder.path().string(), "\"\n");
  folder.write("config.json", nano_config());
  EXPECT_TRUE(has(fault_of(model), "has a config.json, and no model.safetensors"));
  folder.write("model.safetensors", "");
  EXPECT_EQ(Meant(model).recipe.model.weights, folder.path().string());
  const Meant random(model + "from_scratch = true\n");
  EXPECT_EQ(random.recipe.model.weights, "");
  EXPECT_EQ(random.decisions.of(Topic::weights), "random (from scratch, seed 0)");
  EXPECT_EQ(Meant(model + "weights = \"other\"\n").decisions.of(Topic::weights), "from other");
}

TEST(ModelConfig, AFolderTakesThePlaceOfTheModel) {
  const auto golden = std::filesystem::path(test::source_root()) / "tests/golden";
  const auto use = [&](const std::string& model, const std::string& folder) {
    ModelConfig config;
    config.model = model;
    config.model_folder = folder;
    config.use_folder();
    EXPECT_EQ(config.model_folder, "") << "it is said once";
    return config.model;
  };
  const auto folder = (golden / "llama_lm").string();
  EXPECT_EQ(use("qwen2-nano", ""), "qwen2-nano");
  EXPECT_EQ(use("Qwen/Qwen2-1.5B", folder), folder);
  EXPECT_EQ(use(folder + "/.", folder), folder) << "the same one twice";
  EXPECT_TRUE(has(test::fault([&] { use("llama-nano", golden.string()); }), "has no config.json"));
  EXPECT_TRUE(has(test::fault([&] { use((golden / "qwen2_lm").string(), folder); }), "drop one of them"));
}

TEST(Recipe, TheTokenizerIsTheModels) {
  const io::Scratch folder;
  for (const char* name : {"model.safetensors", "tokenizer.json"}) folder.write(name, "{}");
  folder.write("config.json", nano_config());
  const auto place = folder.path().string();
  for (const auto* key : {"model", "weights"}) {
    const auto model = text("[model]\n", key, " = \"", place, "\"\n");
    EXPECT_EQ(Meant(model + "[data]\ndata_folder = \"x\"\n").recipe.data.tokenizer, place) << key;
    EXPECT_EQ(Meant(model + "[data]\ndata_folder = \"x\"\ntokenizer = \"bytes\"\n").recipe.data.tokenizer, "bytes");
    EXPECT_EQ(Meant(model).recipe.data.tokenizer, "") << "without texts there is nothing to read";
  }
}

TEST(Recipe, WeightsOfAnotherFunctionAreRefused) {
  const io::Scratch folder;
  auto config = parse_json(nano_config());
  config.update({{"rope_theta", 100.0}, {"attention_dropout", 0.1}});
  folder.write("config.json", config.dump());
  const auto place = folder.path().string();
  EXPECT_EQ(fault_of(text("[model]\nmodel = \"llama-nano\"\nweights = \"", place, "\"\n")),
            text(place,
                 "/config.json: rope_theta is 100.0, and 500000.0 in llama-nano: with these weights the model would "
                 "compute something else; train them as they are described, with --model ",
                 place, " and no option that changes its sizes"));
  EXPECT_EQ(Meant(text("[model]\nmodel = \"", place, "\"\nfrom_scratch = true\n")).decisions.of(Topic::weights),
            "random (from scratch, seed 0); of the model's config.json not applied in training: attention_dropout 0.1");
  folder.write("model.safetensors", "");
  std::filesystem::remove(folder.path() / "config.json");
  EXPECT_TRUE(has(Meant(text("[model]\nweights = \"", place, "\"\n")).decisions.of(Topic::weights),
                  "no config.json is beside them: llama-nano is assumed to be their architecture"));
}

TEST(Recipe, ARunDoesntWriteIntoItsModel) {
  const io::Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "a/model");
  scratch.write("a/model/config.json", "{}");
  const auto said = [&](const std::string& key, const std::string& place) {
    return fault_of(text("[model]\nlora_rank = 1\nfrom_scratch = true\nmodel = \"",
                         (scratch.path() / "a/model").string(), "\"\n[train]\n", key, " = \"",
                         (scratch.path() / place).string(), "\"\n"));
  };
  for (const char* key : {"output", "export_folder", "adapter_folder"}) {
    for (const char* place : {"a/model", "a/model/runs/x", "a", "a/model/../model/y"})
      EXPECT_TRUE(has(said(key, place), "one contains the other")) << key << " " << place;
    for (const char* place : {"a/model2", "a/run", "b"}) EXPECT_EQ(said(key, place), "no error") << key << " " << place;
  }
}

// A window holds parts of several texts: its epsilon is another promise, which must be asked for.
TEST(Recipe, PackedPrivateDataNeedsTheWindowAsUnit) {
  const auto private_run = [](const std::string& data, const std::string& dp) {
    return kRandom + "[data]\n" + data + "[dp]\ndp = \"auto\"\n" + dp;
  };
  const std::string packed = "packing = \"packed\"\n", window = "privacy_unit = \"window\"\n";
  EXPECT_EQ(
      fault_of(private_run(packed, "")),
      "packed data in a private run: epsilon would hold for \"add or remove one window\", not for a text or a person; "
      "choose --packing records, or accept that with --privacy-unit window");
  EXPECT_TRUE(has(fault_of(private_run("", window)), "--privacy-unit window is for packed data"));
  EXPECT_TRUE(has(fault_of(private_run(packed, "privacy_unit = \"record\"\n")), "packed data in a private run"));
  EXPECT_EQ(Meant(private_run(packed, window)).decisions.of(Topic::privacy), "private: --dp auto was given")
      << "what an epsilon holds for is said with the epsilon, which there may not be";
  EXPECT_EQ(fault_of(kRandom + "[data]\n" + packed), "no error") << "a run that is not private";
}

// One record more at the front, and the last of the first n falls out: the data sets differ in two records.
TEST(Recipe, APrivateRunTakesAllRecords) {
  const std::string some = "[data]\nmax_records = 100\n";
  EXPECT_TRUE(has(fault_of(kRandom + some + "[dp]\ndp = \"auto\"\n"), "drop it (--max-records 0)"));
  EXPECT_TRUE(has(fault_of(kRandom + some + "[dp]\nsigma = 1\n"), "max_records is 100 in a private run"));
  EXPECT_EQ(fault_of(kRandom + some), "no error") << "a run that is not private";
}

TEST(Recipe, APrivateRunHoldsOutASetShare) {
  const std::string number = "[train]\neval_records = 20\n", share = "[train]\neval_rate = 0.1\n";
  const std::string windows = "[data]\npacking = \"packed\"\n[dp]\nprivacy_unit = \"window\"\n";
  const std::string users = "[data]\nuser_field = \"from\"\n[dp]\nprivacy_unit = \"user\"\nmax_records_per_user = 8\n";
  for (const auto& [run, unit] :
       {std::pair(std::string("[dp]\nsigma = 1\n"), "records"), {windows, "windows"}, {users, "users"}}) {
    const auto said = fault_of(kRandom + number + run);
    EXPECT_TRUE(has(said, text("--eval-records 20 in a private run: the share that is held out would follow from the "
                               "number of ",
                               unit)))
        << said;
    EXPECT_TRUE(has(said, "--eval-rate 0.05")) << said;
    EXPECT_EQ(fault_of(kRandom + share + run), "no error") << unit;
  }
  for (const auto& held_out : {number, share}) EXPECT_EQ(fault_of(kRandom + held_out), "no error") << "not private";
  EXPECT_TRUE(has(fault_of(kRandom + number + "eval_rate = 0.1\n"), "both say how many records are held out"));
}

TEST(Recipe, SyntheticDataOrAFolder) {
  EXPECT_TRUE(has(fault_of(kRandom + "[train]\nsynthetic = true\n[data]\ndata_folder = \"x\"\n"),
                  "synthetic data is asked for, and so is the data folder x"));
  const auto said = test::fault([] { require_data(Meant(kRandom).recipe); });
  EXPECT_TRUE(has(said, "set --data-folder FOLDER, or ask for synthetic data with --synthetic")) << said;
}

TEST(Recipe, ABatchIsNoLargerThanTheData) {
  Recipe recipe;
  recipe.work.batch_size = 40;
  EXPECT_NO_THROW(require_batch(recipe, 40));
  EXPECT_TRUE(has(test::fault([&] { require_batch(recipe, 39); }), "which has 39 records for training"));
}

TEST(Recipe, TheShippedOnesAreValid) {
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(test::source_root()) / "recipes")) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    config.read_toml(file.path());
    // The folder that tools/real_model makes is not on every machine: another one of its family stands for it.
    if (recipe.model.model == ".deps/models/smollm2-135m")
      recipe.model.model = test::source_root() + "/tests/golden/llama_lm_tied";
    EXPECT_NO_THROW(resolve(recipe, config.stated())) << file.path();
    EXPECT_NO_THROW(require_data(recipe)) << file.path();
    EXPECT_NO_THROW(models::make_model(recipe.model.model, recipe.sizes, recipe.model.options())) << file.path();
    ++found;
  }
  EXPECT_GE(found, 13);
}

TEST(Event, SamplerAndAccountantSeeTheSameOne) {
  Recipe recipe;
  recipe.dp.dp = privacy::MethodName::flash;
  recipe.work.batch_size = 16;
  recipe.budget.sampler = privacy::Sampler::truncated_poisson;
  recipe.budget.max_batch = 24;
  const auto event = event_of(recipe, 400);
  EXPECT_EQ(event.mechanism.sample_rate, 0.04);
  EXPECT_EQ(event.mechanism.population, 401);
  EXPECT_EQ(event.divisor, 16);
  EXPECT_EQ(mechanism_in(event_json(event, false)), event.mechanism);
  EXPECT_EQ(mechanism_in(event_json(event, false, /*accounted=*/false)), std::nullopt);
  const auto sampler = make_sampler(event, 400, 16, privacy::seeded_key(1));
  EXPECT_EQ(sampler->expected_batch(), 16);
  for (int64_t step = 0; step < 200; ++step) EXPECT_LE(sampler->draw(step).size(), 24u);
  EXPECT_NE(sampler->draw(0), make_sampler(event, 400, 16, privacy::seeded_key(2))->draw(0))
      << "another key, other batches";
}

}  // namespace
}  // namespace shade::train
