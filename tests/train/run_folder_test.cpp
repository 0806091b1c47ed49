#include "shade/train/run/run_folder.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "shade/base/error.h"
#include "tests/io/scratch.h"

namespace shade::train {
namespace {

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
  std::ofstream(file) << std::string(32, '\0');
  std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_THROW(folder.find_key(), Error) << "zeros are no secret";
  std::filesystem::remove(file);
  std::filesystem::create_symlink(scratch.path() / "elsewhere", file);
  EXPECT_THROW(folder.find_key(), Error);
  EXPECT_THROW(folder.destroy_key(), Error);
}

TEST(RunFolder, AProcessThatMakesOrReadsTheKeyIsNotDumped) {
  const io::Scratch scratch;
  const RunFolder folder(scratch.path() / "run");
  ::prctl(PR_SET_DUMPABLE, 1);
  EXPECT_FALSE(folder.find_key());
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 1) << "there is no key yet";
  const auto key = folder.make_key();
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 0);
  ::prctl(PR_SET_DUMPABLE, 1);
  EXPECT_EQ(folder.find_key(), key);
  EXPECT_EQ(::prctl(PR_GET_DUMPABLE), 0);
}

TEST(RunFolder, OfAPrivateRunIsClosedUnlessItHoldsOtherThings) {
  const io::Scratch scratch;
  const auto mode = [](const std::filesystem::path& path) { return std::filesystem::status(path).permissions(); };
  const auto open = std::filesystem::perms(0755), closed = std::filesystem::perms::owner_all;
  const auto made = [&](const char* name) {
    const auto folder = scratch.path() / name;
    std::filesystem::create_directories(folder);
    std::filesystem::permissions(folder, open);
    return folder;
  };
  const auto empty = made("empty"), earlier = made("earlier"), home = made("home"), shared = made("shared");
  for (const auto* name :
       {"recipe.toml", "recipe.1.toml", "environment.json", "metrics.jsonl", "events.out.tfevents.1", "ledger"})
    scratch.write(text("earlier/", name), "");
  for (const auto* name : {"letter.txt", "recipe.toml"}) scratch.write(text("home/", name), "");
  const auto absent = scratch.path() / "new";
  for (const auto& folder : {absent, empty, earlier, home}) RunFolder(folder, Readers::owner);
  for (const auto& folder : {absent, empty, earlier}) EXPECT_EQ(mode(folder), closed) << folder;
  EXPECT_EQ(mode(home), open) << "not ours to close";
  EXPECT_EQ(mode(home / "checkpoints"), closed);
  RunFolder(shared, Readers::by_umask);
  EXPECT_EQ(mode(shared), open) << "a run that is not private";
}

TEST(RunFolder, RefusesMetricsThatAreNoFile) {
  const io::Scratch scratch;
  const RunFolder folder(scratch.path());
  ASSERT_EQ(::mkfifo((scratch.path() / "metrics.jsonl").c_str(), 0600), 0);
  EXPECT_THROW(folder.keep_metrics_until(3), Error);
}

TEST(RunFolder, NamesAFolderInTheRecipesPlace) {
  const io::Scratch scratch;
  const RunFolder folder(scratch.path());
  std::filesystem::create_directory(scratch.path() / "recipe.toml");
  try {
    folder.write_recipe("[train]\n");
    FAIL();
  } catch (const Error& fault) {
    EXPECT_NE(std::string(fault.what()).find("recipe.toml: a folder"), std::string::npos) << fault.what();
  }
}

TEST(RunFolder, OpensNoFileThatWasClosed) {
  const io::Scratch scratch;
  const auto mode = [&](const char* file) { return std::filesystem::status(scratch.path() / file).permissions(); };
  for (const char* file : {"metrics.jsonl", "environment.json"}) {
    scratch.write(file, "{\"step\":4}\n");
    std::filesystem::permissions(scratch.path() / file, std::filesystem::perms(0600));
  }
  const RunFolder folder(scratch.path());
  folder.keep_metrics_until(3);
  folder.write_environment({});
  EXPECT_EQ(io::content(scratch.path() / "metrics.jsonl"), "");
  EXPECT_EQ(mode("metrics.jsonl"), std::filesystem::perms(0600));
  EXPECT_EQ(mode("environment.json"), std::filesystem::perms(0600));
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
