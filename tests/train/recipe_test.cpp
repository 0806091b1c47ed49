// Recipes, and the small rules a run is made of.
#include "shade/train/recipe.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <filesystem>
#include <set>

#include "shade/profile/memory.h"
#include "shade/train/budget.h"
#include "shade/train/held_out.h"
#include "shade/train/micro_batch.h"
#include "shade/train/run_folder.h"
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
    recipe.resolve();
  });
}

TEST(Recipe, IsWrittenDownAsItReadsBack) {
  Recipe recipe, again;
  Config config, copy;
  recipe.declare(config);
  again.declare(copy);
  config.read_toml_text(
      "[model]\nmodel = \"dit-nano\"\nlora_targets = [\"a\", \"b\"]\n[optim]\nlr = 1e-5\n"
      "[train]\nmemory_limit = \"64MiB\"\n[comm]\npeer_timeout = \"1500ms\"\n",
      "recipe");
  copy.read_toml_text(print_toml(config), "copy");
  EXPECT_EQ(config.json(), copy.json());
  EXPECT_EQ(again.model.lora_targets, (std::vector<std::string>{"a", "b"}));
}

TEST(Recipe, RefusesWhatCantBeKept) {
  EXPECT_EQ(
      fault_of("[dp]\ntarget_epsilon = 8\n"),
      "an epsilon is asked of a run that is not private; choose how samples are clipped, e.g. --dp auto, or ask for "
      "none: --target-epsilon 0 --max-epsilon 0");
  EXPECT_EQ(fault_of("[dp]\ndp = \"flash\"\nsampler = \"shuffled\"\ntarget_epsilon = 8\n"),
            "no accountant answers for shuffled batches, so no epsilon can be kept; choose --sampler poisson");
  const std::string kPrivate = "[dp]\ndp = \"auto\"\n";
  EXPECT_NE(fault_of(kPrivate + "[shard]\nreduce_dtype = \"bf16\"\n").find("are reduced in fp32"), std::string::npos);
  EXPECT_NE(fault_of(kPrivate + "accountant = \"gdp\"\n").find("says less than was spent"), std::string::npos);
  EXPECT_NE(fault_of(kPrivate + "norm_timing = true\n").find("another step with the same noise"), std::string::npos);
  EXPECT_EQ(fault_of("[shard]\nreduce_dtype = \"bf16\"\n"), "no error");
  EXPECT_EQ(fault_of("[train]\nmicro_batch = \"many\"\n"),
            "micro_batch is 'many'; expected auto or a number of samples from 1");
  EXPECT_EQ(fault_of("[train]\nsteps = 10\n[optim]\nschedule = \"cosine\"\n"), "no error");
}

TEST(Recipe, TheShippedOnesAreValid) {
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::filesystem::path(test::source_root()) / "recipes")) {
    Recipe recipe;
    Config config;
    recipe.declare(config);
    config.read_toml(file.path());
    EXPECT_NO_THROW(recipe.resolve()) << file.path();
    EXPECT_NO_THROW(models::make_model(recipe.model.model, recipe.sizes, recipe.model.options())) << file.path();
    ++found;
  }
  EXPECT_GE(found, 9);
}

TEST(HeldOut, EveryRecordIsForOneUse) {
  EXPECT_TRUE(rc::check([] {
    const auto records = *rc::gen::inRange<int64_t>(1, 300);
    const auto held_out = *rc::gen::inRange<int64_t>(0, records / 2 + 1);
    const HeldOut split(records, held_out);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < split.training(); ++i) seen.insert(split.training_record(i));
    for (int64_t i = 0; i < split.evaluation(); ++i) seen.insert(split.evaluation_record(i));
    RC_ASSERT(static_cast<int64_t>(seen.size()) == records);
    RC_ASSERT(*seen.begin() == 0 && *seen.rbegin() == records - 1);
  }));
}

TEST(Event, SamplerAndAccountantSeeTheSameOne) {
  Recipe recipe;
  recipe.dp.dp = privacy::MethodName::flash;
  recipe.train.batch_size = 16;
  recipe.budget.sampler = privacy::Sampler::truncated_poisson;
  recipe.budget.max_batch = 24;
  const auto event = event_of(recipe, 400);
  EXPECT_EQ(event.mechanism.sample_rate, 0.04);
  EXPECT_EQ(event.mechanism.population, 401);
  EXPECT_EQ(event.divisor, 16);
  EXPECT_EQ(mechanism_in(event_json(event, false)), event.mechanism);
  const auto sampler = make_sampler(event, 400, 16, {1});
  EXPECT_EQ(sampler->expected_batch(), 16);
  for (int64_t step = 0; step < 200; ++step) EXPECT_LE(sampler->draw(step).size(), 24u);
  EXPECT_NE(sampler->draw(0), make_sampler(event, 400, 16, {2})->draw(0)) << "another key, other batches";
}

TEST(MicroBatch, IsTheLargestThatFits) {
  profile::TensorMemory::track();
  auto world = comm::World::connect({}, {});
  const auto group = world.group("all");
  std::vector<int64_t> tried;
  const auto attempt = [&](int64_t samples) {
    tried.push_back(samples);
    (void)at::empty({samples, 1 << 20}, at::kByte);
  };
  const auto base = profile::TensorMemory::current();
  EXPECT_EQ(choose_micro_batch(group, 100, base + MiB(20), attempt).samples, 16);
  EXPECT_EQ(tried, (std::vector<int64_t>{1, 2, 4, 8, 16})) << "32 would not fit, and is not tried";
  EXPECT_EQ(choose_micro_batch(group, 11, base + MiB(20), attempt).samples, 11);
  EXPECT_NE(test::fault([&] { choose_micro_batch(group, 8, base + KiB(100), attempt); }).find("raise --memory-limit"),
            std::string::npos);
  world.leave();
}

TEST(RunFolder, KeepsItsKeyToItself) {
  const io::Scratch scratch;
  const RunFolder folder(scratch.path() / "run");
  EXPECT_FALSE(folder.find_key());
  EXPECT_FALSE(folder.destroy_key());
  const auto key = folder.make_key();
  EXPECT_EQ(RunFolder(scratch.path() / "run").find_key(), key);
  EXPECT_NE(folder.make_key(), key);
  const auto file = scratch.path() / "run/key";
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::permissions(file, std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  EXPECT_THROW(folder.find_key(), Error);
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  std::ofstream(file) << "short";
  EXPECT_THROW(folder.find_key(), Error);
  EXPECT_TRUE(folder.destroy_key());
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(RunFolder, TellsOfNoStepThatWillBeMadeAgain) {
  const io::Scratch scratch;
  RunFolder(scratch.path()).keep_metrics_until(3);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "metrics.jsonl")) << "nothing to keep";
  const std::string kept = "{\"step\":1}\n{\"step\":3,\"loss\":2.5}\n{\"step\":3,\"eval_loss\":2}\n";
  scratch.write("metrics.jsonl", kept + "{\"step\":4}\n{\"st\n[]\n{\"step\":2}\n{\"step\":3}");
  {
    RunFolder folder(scratch.path());
    folder.keep_metrics_until(3);
    EXPECT_EQ(io::content(scratch.path() / "metrics.jsonl"), kept + "{\"step\":2}\n") << "cut lines are taken away too";
    folder.append_metrics({{"step", 4}});
  }
  RunFolder(scratch.path()).keep_metrics_until(4);
  EXPECT_EQ(io::content(scratch.path() / "metrics.jsonl"), kept + "{\"step\":2}\n{\"step\":4}\n");
}

}  // namespace
}  // namespace shade::train
