// What is saved comes back to the bit in any world; a save appears whole or not at all; every rank hears of a failure.
#include "shade/checkpoint/store.h"

#include <gtest/gtest.h>

#include <mutex>

#include "shade/io/safetensors.h"
#include "tests/checkpoint/small_run.h"
#include "tests/io/scratch.h"
#include "tests/support/ranks.h"

namespace shade::checkpoint {
namespace {

using io::Scratch;
using shard::Strategy;
using test::As;
using test::run_ranks;

struct World {
  int ranks;
  Strategy strategy;
  shard::Wrap wrap;
};
const std::vector<World> kWorlds{{1, Strategy::none, shard::Wrap::module},
                                 {2, Strategy::ddp, shard::Wrap::none},
                                 {3, Strategy::zero2, shard::Wrap::none},
                                 {4, Strategy::zero3, shard::Wrap::module},
                                 {4, Strategy::hsdp, shard::Wrap::none}};

using Tensors = std::map<std::string, at::Tensor>;

void expect_equal(const Tensors& found, const Tensors& wanted, const std::string& where) {
  ASSERT_EQ(found.size(), wanted.size()) << where;
  for (const auto& [name, value] : wanted) EXPECT_TRUE(at::equal(found.at(name), value)) << where << ": " << name;
}

TEST(Store, AnyWorldLoadsWhatAnyWorldSaved) {
  for (const auto& from : kWorlds) {
    const Scratch scratch;
    Tensors saved;
    run_ranks(from.ranks, As::threads, [&](comm::World& world) {
      SmallRun run(world, from.strategy, from.wrap);
      for (int i = 0; i < 3; ++i) run.step();
      const auto all = world.group("all");
      Store store(world.group("checkpoint"), {.folder = scratch.path()});
      store.save(*run.runtime, *run.optimizer, {{"note", "three steps"}});
      auto tensors = run.everything(all);
      if (world.rank() == 0) saved = std::move(tensors);
    });
    for (const auto& to : kWorlds) {
      const auto where = text(from.ranks, " ", to_string(from.strategy), " -> ", to.ranks, " ", to_string(to.strategy));
      run_ranks(to.ranks, As::threads, [&](comm::World& world) {
        SmallRun run(world, to.strategy, to.wrap);
        const auto all = world.group("all");
        Store store(world.group("checkpoint"), {.folder = scratch.path()});
        const auto manifest = store.load(store.latest().value(), *run.runtime, *run.optimizer);
        EXPECT_EQ(manifest.caller, Json({{"note", "three steps"}})) << where;
        EXPECT_EQ(run.optimizer->steps(), 3) << where;
        const auto tensors = run.everything(all);
        if (world.rank() == 0) expect_equal(tensors, saved, where);
        // What is gathered for computing is what was loaded.
        const auto& weight = run.parameters.weights()[0];
        EXPECT_TRUE(at::equal(run.runtime->whole(weight).view(-1), saved.at("weight/embed.weight"))) << where;
      });
    }
  }
}

TEST(Store, CopiesOfTheModelWriteItOnce) {
  for (const auto strategy : {Strategy::ddp, Strategy::hsdp}) {
    const Scratch scratch;
    run_ranks(4, As::threads, [&](comm::World& world) {
      SmallRun run(world, strategy);
      Store store(world.group("checkpoint"), {.folder = scratch.path()});
      store.save(*run.runtime, *run.optimizer, {});
    });
    // 149 trained elements with two states, 17 frozen ones; headers come on top.
    uint64_t data = 0, most = 0;
    for (size_t rank = 0; rank < 4; ++rank) {
      uint64_t mine = 0;
      for (const auto& name : {file_name(rank), frozen_name(rank)}) {
        const io::SafetensorsFile file(scratch.path() / "00001_step_0" / name);
        for (const auto& [tensor, info] : file.header().tensors) mine += info.size();
      }
      data += mine;
      most = std::max(most, mine);
    }
    EXPECT_EQ(data, (149u * 3 + 17) * 4);
    EXPECT_LE(most, data * 2 / 5) << "everybody writes its part";
  }
}

TEST(Store, FrozenWeightsAreWrittenOnce) {
  for (const auto strategy : {Strategy::ddp, Strategy::zero3}) {
    const Scratch scratch;
    run_ranks(2, As::threads, [&](comm::World& world) {
      SmallRun run(world, strategy);
      const auto group = world.group("all");
      const auto name = frozen_name(static_cast<size_t>(world.rank()));
      Store store(world.group("checkpoint"), {.folder = scratch.path(), .keep = 2});
      const auto save = [&](bool async) {
        run.step();
        async ? store.save_async(*run.runtime, *run.optimizer, {}) : store.save(*run.runtime, *run.optimizer, {});
        store.wait();
        group.barrier().wait();
        return store.latest()->folder / name;
      };
      const auto first = save(false), second = save(true);
      EXPECT_TRUE(std::filesystem::equivalent(first, second));
      const auto third = save(false);
      EXPECT_FALSE(std::filesystem::exists(first));
      EXPECT_TRUE(std::filesystem::equivalent(second, third));

      // Whole by itself when the ones before are gone, and after it was loaded nothing is taken for granted.
      const auto before = run.everything(group);
      run.step();
      store.load(*store.latest(), *run.runtime, *run.optimizer);
      const auto after = run.everything(group);
      if (world.rank() == 0) expect_equal(after, before, "third");
      const auto fourth = save(false);
      EXPECT_FALSE(std::filesystem::equivalent(third, fourth));

      std::filesystem::remove(fourth);  // where nothing can be linked it is written
      group.barrier().wait();
      save(true);
      store.load(*store.latest(), *run.runtime, *run.optimizer);
    });
  }
}

TEST(Store, KeepsTheLastAndNeverRemovesTheLatest) {
  const Scratch scratch;
  run_ranks(2, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::zero3);
    Store store(world.group("checkpoint"), {.folder = scratch.path(), .keep = 2});
    EXPECT_FALSE(store.latest());
    for (int i = 0; i < 4; ++i) {
      run.step();
      store.save(*run.runtime, *run.optimizer, {});
    }
    const auto group = world.group("all");
    group.barrier().wait();
    const std::vector<std::filesystem::path> wanted{scratch.path() / "00003_step_3", scratch.path() / "00004_step_4"};
    EXPECT_EQ(store.list(), wanted);
    // Back to an older one: what is saved from there is the newest, though its step is smaller.
    store.load({wanted[0], {}}, *run.runtime, *run.optimizer);
    run.optimizer->set_steps(1);
    store.save(*run.runtime, *run.optimizer, {});
    group.barrier().wait();
    EXPECT_EQ(store.latest()->folder.filename(), "00005_step_1");
    EXPECT_EQ(store.list(), (std::vector{wanted[1], scratch.path() / "00005_step_1"}));
  });
}

TEST(Store, RemovesWhatAnInterruptedSaveLeft) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / ".tmp-00007_step_9");
  scratch.write(".tmp-00007_step_9/rank_00000.safetensors", "half");
  scratch.write("LATEST.77.0.tmp", "half");
  std::filesystem::create_directories(scratch.path() / ".tmp-mine");
  run_ranks(1, As::threads,
            [&](comm::World& world) { const Store store(world.group("checkpoint"), {.folder = scratch.path()}); });
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / ".tmp-00007_step_9"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "LATEST.77.0.tmp"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / ".tmp-mine")) << "not ours";
}

TEST(Store, IsOneRunsAtATime) {
  const Scratch scratch;
  run_ranks(1, As::threads, [&](comm::World& world) {
    const Store store(world.group("checkpoint"), {.folder = scratch.path()});
    EXPECT_NE(io::message_of<UsageError>([&] {
                const Store second(world.group("another"), {.folder = scratch.path()});
              }).find("in use by another run"),
              std::string::npos);
  });
}

TEST(Store, AnAsynchronousSaveIsOfTheMomentItWasAskedFor) {
  const Scratch scratch;
  Tensors saved;
  run_ranks(2, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::zero2);
    const auto all = world.group("all");
    Store store(world.group("checkpoint"), {.folder = scratch.path()});
    run.step();
    auto then = run.everything(all);
    store.save_async(*run.runtime, *run.optimizer, {{"at", 1}});
    run.step();
    store.save_async(*run.runtime, *run.optimizer, {{"at", 2}});
    run.step();
    store.wait();
    EXPECT_EQ(store.list().size(), 2u);
    const auto manifest = store.load({store.list()[0], {}}, *run.runtime, *run.optimizer);
    EXPECT_EQ(manifest.caller["at"], 1);
    expect_equal(run.everything(all), then, "first save");
  });
}

// Rank 1 comes to the folder by a way of its own, which then is cut; everybody is told, in the same words, and the last
// checkpoint stays.
TEST(Store, AFailureOnOneRankIsToldToAll) {
  for (const bool async : {false, true}) {
    const Scratch scratch, real;
    std::mutex mutex;
    std::set<std::string> words;
    run_ranks(3, As::threads, [&](comm::World& world) {
      SmallRun run(world, Strategy::zero3);
      const auto all = world.group("all");
      const auto way = text(scratch.path().string(), "/way_", world.rank());
      std::filesystem::create_directory_symlink(real.path(), way);
      Store store(world.group("checkpoint"), {.folder = way});
      store.save(*run.runtime, *run.optimizer, {});
      run.step();
      if (world.rank() == 1) std::filesystem::remove(way);
      const auto message = io::message_of<Error>([&] {
        if (async) {
          store.save_async(*run.runtime, *run.optimizer, {});
          store.save_async(*run.runtime, *run.optimizer, {});  // the next call says so
        } else {
          store.save(*run.runtime, *run.optimizer, {});
        }
      });
      {
        const std::lock_guard lock(mutex);
        words.insert(message.substr(message.find(" failed on")));
      }
      if (world.rank() == 1) std::filesystem::create_directory_symlink(real.path(), way);
      EXPECT_EQ(store.latest()->folder.filename(), "00001_step_0");
      store.load(*store.latest(), *run.runtime, *run.optimizer);
      EXPECT_EQ(run.optimizer->steps(), 0);
      store.save(*run.runtime, *run.optimizer, {});  // and life goes on
      EXPECT_EQ(store.latest()->folder.filename(), "00002_step_0");
    });
    EXPECT_EQ(words.size(), 1u);
    EXPECT_NE(words.begin()->find("failed on rank 1: cannot create "), std::string::npos) << *words.begin();
  }
}

TEST(Store, RefusesAnotherModelOrOptimizerAndTouchesNothing) {
  const Scratch scratch;
  run_ranks(2, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::zero2);
    const auto all = world.group("all");
    Store store(world.group("checkpoint"), {.folder = scratch.path()});
    store.save(*run.runtime, *run.optimizer, {});
    SmallRun other(run.runtime->groups(), Strategy::zero2, shard::Wrap::module, {.state_type = optim::StateType::bf16});
    other.step();
    const auto before = other.everything(all);
    EXPECT_NE(io::message_of<UsageError>([&] {
                store.load(*store.latest(), *other.runtime, *other.optimizer);
              }).find("exp_avg of 'embed.weight' was saved as F32, here it is BF16"),
              std::string::npos);
    expect_equal(other.everything(all), before, "untouched");
    EXPECT_EQ(other.optimizer->steps(), 1);
    other.parameters.weights()[1].freeze();
    shard::Runtime again(other.parameters, run.runtime->groups(), run.config);
    EXPECT_NE(io::message_of<UsageError>([&] {
                store.load(*store.latest(), again, *run.optimizer);
              }).find("weight 'block.a' was trained [5, 11], in this model it is frozen [5, 11]"),
              std::string::npos);
  });
}

TEST(Store, RanksThatSeeDifferentCheckpointsLoadNone) {
  const Scratch scratch;
  run_ranks(2, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::ddp);
    Store store(world.group("checkpoint"), {.folder = scratch.path()});
    for (int i = 0; i < 2; ++i) {
      store.save(*run.runtime, *run.optimizer, {});
      run.step();
    }
    const auto mine = store.list()[static_cast<size_t>(world.rank())];
    EXPECT_NE(io::message_of<UsageError>([&] {
                store.load({mine, {}}, *run.runtime, *run.optimizer);
              }).find("failed on rank 1: "),
              std::string::npos);
    EXPECT_EQ(run.optimizer->steps(), 2);
  });
}

TEST(Store, RefusesWordsThatWouldNotComeBack) {
  const Scratch scratch;
  run_ranks(1, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::none);
    Store store(world.group("checkpoint"), {.folder = scratch.path()});
    const Json odd{{"loss", std::numeric_limits<double>::quiet_NaN()}};
    EXPECT_ANY_THROW(store.save(*run.runtime, *run.optimizer, odd));
    EXPECT_TRUE(store.list().empty());
    EXPECT_FALSE(store.latest());
  });
}

}  // namespace
}  // namespace shade::checkpoint
