// What a job says of itself decides whether noise may be drawn again for a step (identity.h). Every field of a recipe
// is changed, one at a time, in several runs: the words change, or the field is listed here as one that can't matter.
#include <map>
#include <set>

#include "shade/base/json.h"
#include "shade/privacy/mechanism_version.h"
#include "shade/train/budget/identity.h"
#include "shade/train/feed/made_up_data.h"
#include "shade/train/spec/changes.h"
#include "shade/train/step/job.h"
#include "shade/train/step/job_settings.h"
#include "tests/data/folder.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

const std::set<std::string> kCannotMatter{
    // how far to go, and when to stop: the schedule has total_steps, and sigma is in the event
    "train.steps",
    "dp.max_epsilon",
    "dp.delta",
    "dp.accountant",
    // where files are; their content is in the words, or is hashed by identity.h
    "train.output",
    "train.export_folder",
    "train.adapter_folder",
    "train.test_folder",
    "data.data_folder",
    "data.cache_folder",
    "shard.offload_folder",
    // what is printed, saved, evaluated and exported, and how often
    "train.log_every",
    "train.save_every",
    "train.save_interval",
    "train.keep",
    "train.eval_every",
    "train.export_dtype",
    "train.keep_key",
    "train.peak_gflops",
    "train.restart",
    "train.sample_corpus",
    // identity.h has the number of threads and the micro-batch that was found
    "train.threads",
    "train.memory_limit",
};

// They can't be changed alone, or not in these runs. The fingerprint of the records has tokenizer, chat template,
// loss_on, flip (data_test), what the named fields hold and whether they are synthetic, identity.h has the first
// weights, a model's folder has an architecture, grad_accum decides micro_batch, the event has the unit, private runs
// refuse timed choices, a data ledger must be there and decides nothing but when to stop, and the world has the section
// [comm] (below).
const std::set<std::string> kElsewhere{"model.model_folder",
                                       "train.grad_accum",
                                       "model.weights",
                                       "model.from_scratch",
                                       "train.resume_from",
                                       "train.synthetic",
                                       "data.tokenizer",
                                       "data.flip",
                                       "data.chat_template",
                                       "data.loss_on",
                                       "data.text_field",
                                       "data.prompt_field",
                                       "data.completion_field",
                                       "data.messages_field",
                                       "data.label_field",
                                       "data.user_field",
                                       "dp.privacy_unit",
                                       "dp.data_ledger",
                                       "dp.norm_timing",
                                       "comm.backend",
                                       "comm.peer_timeout",
                                       "comm.rendezvous_timeout",
                                       "comm.stall_timeout",
                                       "comm.interface",
                                       "comm.seal",
                                       "comm.segment"};

// Other values of fields that are no numbers or switches.
const std::map<std::string, std::vector<std::string>> kOthers{{"model.model", {"qwen2-nano"}},
                                                              {"model.task", {"classify", "lm"}},
                                                              {"model.loss_mean", {"record"}},
                                                              {"model.attention", {"standard"}},
                                                              {"model.checkpointing", {"block"}},
                                                              {"model.dtype", {"bf16"}},
                                                              {"model.lora_targets", {"q_proj"}},
                                                              {"model.positions", {"sincos"}},
                                                              {"model.image_size", {"32"}},
                                                              {"model.patch_size", {"2"}},
                                                              {"model.hidden_dim", {"48"}},
                                                              {"model.num_heads", {"2"}},
                                                              {"model.num_kv_heads", {"1"}},
                                                              {"model.num_layers", {"1"}},
                                                              {"model.ffn_dim", {"48"}},
                                                              {"model.vocab_size", {"300"}},
                                                              {"model.num_classes", {"7"}},
                                                              {"data.packing", {"packed"}},
                                                              {"data.text_unit", {"line"}},
                                                              {"data.classes", {"b,a"}},
                                                              {"data.max_records", {"30"}},
                                                              {"shard.shard", {"zero2"}},
                                                              {"shard.wrap", {"none"}},
                                                              {"shard.backward_prefetch", {"post"}},
                                                              {"shard.reduce_dtype", {"bf16"}},
                                                              {"shard.segment", {"8192"}},
                                                              {"optim.optimizer", {"adamw"}},
                                                              {"optim.beta1", {"0.5"}},
                                                              {"optim.beta2", {"0.5"}},
                                                              {"optim.schedule", {"cosine"}},
                                                              {"optim.state_dtype", {"bf16"}},
                                                              {"dp.dp", {"ghost"}},
                                                              {"dp.clip_style", {"automatic"}},
                                                              {"dp.norm_algorithm", {"width"}},
                                                              {"dp.sampler", {"poisson", "shuffled"}},
                                                              {"dp.sample_rate", {"0.125"}},
                                                              {"dp.accountant", {"rdp"}},
                                                              {"dp.max_epsilon", {"1000"}},
                                                              {"dp.noise_seed", {"5"}},
                                                              {"train.micro_batch", {"2"}},
                                                              {"train.padding", {"max_length"}},
                                                              {"train.eval_records", {"20"}},
                                                              {"train.eval_rate", {"0.3"}},
                                                              {"train.export_dtype", {"bf16"}},
                                                              {"train.seq_length", {"10"}}};

// The words of a job made from a recipe, or why there is none.
std::string words_of(const std::filesystem::path& run, const Words& words) {
  std::string out;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    const auto said = test::fault([&] {
      config.set("train.output", run.string());
      set_words(config, words);
      out = Trainer(world, resolve(recipe, config.stated(), world.size()), nullptr, {.quiet = true})
                .job_settings()
                .dump();
    });
    if (said != "no error") out = "refused: " + said;
  });
  std::filesystem::remove_all(run);
  return out;
}

// Besides what fields state that they need (base/effect.h): by what is in the runs' names.
const std::map<std::string, std::vector<std::string>> kOnlyIn{{"dp.sampler", {"private"}},
                                                              {"data.text_unit", {"texts", "windows"}},
                                                              {"data.classes", {"labels"}},
                                                              {"model.loss_mean", {"lora"}}};

// Whether a run has a use for a field that was set; if not, giving it is an error and the words may stay as they are.
bool used_in(const std::string& run, Recipe& recipe, const Config& config, const Field& field) {
  if (const auto only = kOnlyIn.find(field.key()); only != kOnlyIn.end())
    return std::any_of(only->second.begin(), only->second.end(),
                       [&](const std::string& name) { return run.find(name) != std::string::npos; });
  recipe = *resolve(recipe, config.stated());
  return !unmet(field, config, {{kModelKind, recipe.model.model_kind(recipe.sizes)}, {kRanks, ranks_fact(1)}});
}

bool refused(const std::string& words) { return words.starts_with("refused: "); }

std::vector<std::string> others(const Field& field) {
  if (const auto known = kOthers.find(field.key()); known != kOthers.end()) return known->second;
  const auto now = json_values(field);
  if (now.is_boolean()) return {now.get<bool>() ? "false" : "true"};
  if (now.is_number_integer()) return {std::to_string(now.get<int64_t>() + 1)};
  if (now.is_number()) return {std::to_string(now.get<double>() * 1.5 + 0.0625)};
  return {};
}

TEST(JobSettings, ChangeWithEveryFieldThatCanMatter) {
  const data::Folder texts, labelled, named, here;
  for (int i = 0; i < 48; ++i) {
    texts.put(text("t", i, ".txt"), text("record ", i, "\nhas lines of text and more of it\n"));
    labelled.put(text("t", i, ".jsonl"),
                 text(R"({"text": "record )", i, R"(", "label": ")", i % 2 == 0 ? "a" : "b", "\"}\n"));
    named.put(text("t", i, ".jsonl"), text(R"({"text": "record )", i, R"(", "from": )", i % 24, "}\n"));
  }
  const auto copy = here.path() / "copy";
  std::filesystem::copy(texts.path(), copy, std::filesystem::copy_options::recursive);
  const auto folder = [&](const data::Folder& from) { return std::pair("data.data_folder", from.path().string()); };
  const Words common{{"train.steps", "4"},       {"train.batch_size", "8"},  {"train.seq_length", "12"},
                     {"train.micro_batch", "4"}, {"optim.optimizer", "sgd"}, {"optim.total_steps", "100"},
                     {"optim.momentum", "0.5"},  {"train.records", "40"},    {"train.peak_gflops", "10"}};
  const auto base = [&](Words more) {
    more.insert(more.begin(), common.begin(), common.end());
    return more;
  };
  const std::vector<std::pair<std::string, Words>> runs{
      {"private texts", base({folder(texts),
                              {"model.vocab_size", "259"},
                              {"model.task", "lm"},
                              {"dp.dp", "auto"},
                              {"dp.delta", "1e-3"},
                              {"dp.sigma", "2"},
                              {"dp.sampler", "truncated_poisson"},
                              {"dp.max_batch", "16"},
                              {"dp.population", "100"}})},
      {"private labels", base({folder(labelled),
                               {"model.vocab_size", "259"},
                               {"model.task", "classify"},
                               {"data.classes", "a,b"},
                               {"dp.dp", "auto"},
                               {"dp.delta", "1e-3"},
                               {"dp.sample_rate", "0.25"}})},
      {"private windows", base({folder(texts),
                                {"model.vocab_size", "259"},
                                {"model.task", "lm"},
                                {"data.packing", "packed"},
                                {"dp.privacy_unit", "window"},
                                {"dp.clip_style", "adaptive"},
                                {"dp.dp", "auto"},
                                {"dp.delta", "1e-3"}})},
      {"private users", base({folder(named),
                              {"model.vocab_size", "259"},
                              {"model.task", "lm"},
                              {"data.user_field", "from"},
                              {"dp.privacy_unit", "user"},
                              {"dp.max_records_per_user", "1"},
                              {"dp.dp", "auto"},
                              {"dp.delta", "1e-3"}})},
      {"lora on texts", base({folder(texts),
                              {"model.vocab_size", "259"},
                              {"model.task", "lm"},
                              {"dp.dp", "none"},
                              {"model.lora_rank", "2"},
                              {"train.eval_records", "4"}})},
      {"images", base({{"model.model", "dit-nano"}, {"dp.dp", "none"}})},
      {"linear", base({{"model.model", "linear-nano"}, {"dp.dp", "none"}})}};

  std::map<std::string, std::string> before;
  for (const auto& [name, words] : runs) {
    before[name] = words_of(here.path() / "run", words);
    ASSERT_FALSE(refused(before[name])) << name << ": " << before[name];
    EXPECT_EQ(words_of(here.path() / "another", words), before[name]) << name << ": the same words again";
  }
  Recipe recipe;
  Config fields;
  recipe.declare(fields);
  std::set<std::string> known;
  for (const auto& field : fields.fields()) known.insert(field.key());
  for (const auto* list : {&kCannotMatter, &kElsewhere})
    for (const auto& key : *list) EXPECT_TRUE(known.contains(key)) << key << " is no field";

  for (const auto& key : known) {
    if (kElsewhere.contains(key)) continue;
    std::string changed, same, why;
    for (const auto& [name, words] : runs) {
      Recipe present;
      Config config;
      present.declare(config);
      set_words(config, words);
      const auto field = std::find_if(config.fields().begin(), config.fields().end(),
                                      [&](const Field& candidate) { return candidate.key() == key; });
      auto values = others(*field);
      if (key == "data.data_folder" && name.ends_with("texts")) values = {copy.string()};
      if (key == "train.test_folder" && name.ends_with("texts")) values = {copy.string()};
      if (key.ends_with("_folder") && values.empty()) values = {(here.path() / "elsewhere").string()};
      for (const auto& value : values) {
        if (value == field->str()) continue;
        auto with = words;
        with.emplace_back(key, value);
        const auto now = words_of(here.path() / "run", with);
        const auto line = text("\n  ", name, ": ", value);
        if (refused(now))
          why += text("\n  ", name, ": ", now);
        else if (now != before[name])
          changed += line;
        else if (field->set(value); kCannotMatter.contains(key) || used_in(name, present, config, *field))
          same += line;
      }
    }
    if (kCannotMatter.contains(key)) {
      EXPECT_EQ(changed, "") << key << " can't matter";
      EXPECT_TRUE(key == "train.output" || !same.empty()) << key << " was refused everywhere" << why;
    } else {
      EXPECT_FALSE(changed.empty()) << key << " changes no job's words" << why;
      EXPECT_TRUE(same.empty()) << key << " matters, but leaves words as they are in" << same;
    }
  }
}

TEST(JobSettings, TellByWhatSumsTravel) {
  const auto with = [](Bytes segment) {
    return world_settings(comm::World::connect(comm::Place{}, comm::CommConfig{.segment = segment}));
  };
  EXPECT_EQ(with(MiB(4)), with(MiB(4)));
  EXPECT_NE(with(MiB(4)), with(MiB(8)));
  EXPECT_EQ(with(MiB(4)).at("backend"), "gloo");
}

TEST(JobSettings, TellWhichRecordsAreHeldOut) {
  const auto model = models::make_model("linear-nano", {}, {});
  const MadeUpData data(*model, 40, 1, 3);
  const auto with = [&](const std::optional<HeldOut>& split) {
    return record_settings({.model = model.get(), .data = &data, .split = split});
  };
  EXPECT_EQ(with(HeldOut::by_position(40, 4)), with(HeldOut::by_position(40, 4)));
  EXPECT_NE(with(HeldOut::by_position(40, 4)), with(HeldOut::behind(40, 4, "")));
}

// Sums and noise of another version never meet in one step, and who continues a run is told why its steps are new ones.
TEST(JobSettings, TellTheVersionOfClippingAndNoise) {
  const auto model = models::make_model("linear-nano", {}, {});
  const auto words = [&](const std::optional<privacy::PrivacyEvent>& event) {
    return deciding_settings({.model = model.get(), .step = {.privacy = event}});
  };
  EXPECT_EQ(words(privacy::PrivacyEvent{}).value("mechanism", 0), privacy::kMechanismVersion);
  EXPECT_FALSE(words(std::nullopt).contains("mechanism"));
  const Json parts{{"job", words(privacy::PrivacyEvent{})},
                   {"threads", 1},
                   {"libtorch", "2"},
                   {"program", "p"},
                   {"processor", "c"},
                   {"device", Json()},
                   {"variables", Json()},
                   {"weights", "w"}};
  Recipe recipe;
  Config config;
  recipe.declare(config);
  const auto now = settings_of(json_values(config), 1, parts);
  auto before = now;
  EXPECT_TRUE(changes(before, now).empty());
  before.erase("mechanism");  // as 0.2.0 saved it
  EXPECT_EQ(changes(before, now),
            (std::vector<std::string>{text("version of clipping and noise 1 -> ", privacy::kMechanismVersion)}));
}

// So that a step is never taken for one that was made on another kind of device.
TEST(JobSettings, TellTheDevice) {
  auto world = comm::World::connect({}, {});
  const auto groups = shard::connect_groups(world, shard::policy_of({}, 1));
  const auto identity_on = [&](std::optional<at::Device> device) {
    const auto model = models::make_model("linear-nano", {}, {});
    const MadeUpData data(*model, 8, 4, 1);
    Job job(world, {.model = model.get(), .data = &data, .device = device, .batch_size = 4, .groups = groups});
    return identity_of(job);
  };
  const auto here = identity_on(std::nullopt);
  EXPECT_EQ(here.parts["job"]["job"]["device"], "cpu") << "the world's";
  EXPECT_TRUE(here.parts["device"].is_null()) << "the processor is described elsewhere";
  EXPECT_EQ(identity_on(at::kCPU).digest, here.digest);
  const auto there = identity_on(at::kMeta);  // any other than the CPU
  EXPECT_EQ(there.parts["job"]["job"]["device"], "meta");
  EXPECT_EQ(there.parts["device"]["name"], "meta");
  for (const auto* key : {"visible", "nccl"}) EXPECT_TRUE(there.parts["device"].contains(key)) << key;
  EXPECT_NE(there.digest, here.digest);
  world.leave();
}

}  // namespace
}  // namespace shade::train
