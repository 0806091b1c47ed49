// Storage that fails at any single call of a save, on any rank: every rank says so, in the same words, and the
// checkpoint before is the latest and loads. Every call is made to fail once with each error.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/ledger.h"
#include "shade/checkpoint/reader.h"
#include "shade/checkpoint/store.h"
#include "shade/comm/errors.h"
#include "shade/comm/job/launch.h"
#include "shade/io/errors.h"
#include "shade/profile/events.h"
#include "shade/train/run/run_folder.h"
#include "tests/checkpoint/small_run.h"
#include "tests/checkpoint/storage_fault.h"
#include "tests/io/scratch.h"
#include "tests/support/ranks.h"
#include "tests/train/remains.h"

namespace shade::checkpoint {
namespace {

using shard::Strategy;

constexpr int kShort = 0;  // half of the bytes are written, and the caller has to go on: no failure

struct Case {
  const char* call;
  int fault;
};
constexpr Case kCases[] = {{"open", EIO},  {"open", ENOSPC},  {"write", EIO},  {"write", ENOSPC}, {"write", kShort},
                           {"fsync", EIO}, {"fsync", ENOSPC}, {"rename", EIO}, {"rename", ENOSPC}};

// One folder for all ranks, made by rank 0.
std::filesystem::path shared_folder(const comm::Group& group) {
  return from_rank0(group, "making a folder", [] {
    std::string name = (std::filesystem::temp_directory_path() / "shade_fault_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error("cannot make a folder");
    return name;
  });
}

struct Tally {
  int points = 0, failed = 0, undecided = 0, survived = 0;
};

class Faults {
 public:
  Faults(comm::World& world, bool async)
      : all_(world.group("all")), run_(world, Strategy::zero3), async_(async), folder_(shared_folder(all_)) {
    store_.emplace(world.group("checkpoint"), Store::Options{.folder = folder_, .keep = 1});
    run_.step();
    store_->save(*run_.runtime, *run_.optimizer, {});
  }
  ~Faults() {
    store_.reset();
    std::error_code ignored;
    if (all_.rank() == 0) std::filesystem::remove_all(folder_, ignored);
  }

  // The n-th call of this kind on this rank. False: there is no n-th.
  bool strike(const Case& c, int victim, int n, Tally& tally) {
    const auto where = text(c.call, " ", n, " of rank ", victim, ": ", c.fault == 0 ? "short" : std::strerror(c.fault));
    SCOPED_TRACE(where);
    const auto before = store_->latest().value();
    const auto before_steps = run_.optimizer->steps();
    run_.step();
    const auto steps = run_.optimizer->steps();
    all_.barrier().wait();
    if (all_.rank() == victim) storage_.arm(folder_, c.call, n, c.fault);
    std::string message;
    try {
      if (async_) {
        store_->save_async(*run_.runtime, *run_.optimizer, {});
        store_->wait();
      } else {
        store_->save(*run_.runtime, *run_.optimizer, {});
      }
    } catch (const Error& fault) {
      message = fault.what();
    }
    all_.barrier().wait();  // rank 0 removes what is old after the others have gone on
    const bool happened = storage_.disarm();
    const auto told = from_rank0(all_, "comparing", [&] { return message; });
    EXPECT_EQ(told, message) << "everybody says the same";
    const bool struck = flag(happened);
    if (!struck) {
      EXPECT_EQ(message, "");
      return false;
    }
    ++tally.points;
    const auto latest = store_->latest().value();
    if (message.empty()) {
      ++tally.survived;
      EXPECT_NE(latest.folder, before.folder);
    } else {
      ++tally.failed;
      EXPECT_NE(c.fault, kShort) << message;
      EXPECT_NE(message.find(text("failed on rank ", victim, ": cannot ")), std::string::npos) << message;
      EXPECT_NE(message.find(std::strerror(c.fault)), std::string::npos) << message;
      store_->load(before, *run_.runtime, *run_.optimizer);
      EXPECT_EQ(run_.optimizer->steps(), before_steps);
      // LATEST was replaced and only its flush failed: it may name either.
      tally.undecided += latest.folder == before.folder ? 0 : 1;
    }
    const auto manifest = store_->load(latest, *run_.runtime, *run_.optimizer);  // whichever it is, it is whole
    EXPECT_EQ(manifest.steps, latest.folder == before.folder ? before_steps : steps);
    for (const auto& item : std::filesystem::directory_iterator(folder_))
      EXPECT_FALSE(item.path().filename().string().starts_with(".tmp-") && c.call != std::string("rename"))
          << item.path();
    all_.barrier().wait();
    return true;
  }

 private:
  bool flag(bool here) const {
    auto count = at::full({1}, here ? 1 : 0, at::kLong);
    all_.all_reduce(count).wait();
    return count.item<int64_t>() > 0;
  }

  comm::Group all_;
  SmallRun run_;
  bool async_;
  std::filesystem::path folder_;
  std::optional<Store> store_;
  test::StorageFault storage_;
};

void strike_everywhere(bool async) {
  test::run_ranks(2, test::As::processes, [&](comm::World& world) {
    Faults faults(world, async);
    Tally tally;
    for (const auto& c : kCases)
      for (int victim = 0; victim < 2; ++victim)
        for (int n = 1; faults.strike(c, victim, n, tally); ++n)
          if (testing::Test::HasFailure()) return;
    if (world.rank() == 0)
      std::printf("%d faults: %d saves failed on both ranks, %d were survived\n", tally.points, tally.failed,
                  tally.survived);
    EXPECT_GT(tally.failed, 50);
    EXPECT_EQ(tally.undecided, 4) << "the last open and the last fsync, with two errors";
  });
}

TEST(StorageFault, AtEveryCallOfASave) { strike_everywhere(false); }
TEST(StorageFault, AtEveryCallOfAnAsynchronousSave) { strike_everywhere(true); }

// Killed at a call of its second save; run by the test below, once for each call.
TEST(Victim, DISABLED_SavesTwice) {
  const auto word = [](const char* name) { return std::string(std::getenv(name)); };
  auto world = comm::World::connect(comm::place_from_environment(), {});
  SmallRun run(world, Strategy::zero3);
  Store store(world.group("checkpoint"), {.folder = word("VICTIM_FOLDER"), .keep = 1});
  run.step();
  store.save(*run.runtime, *run.optimizer, {});
  run.step();
  test::StorageFault storage;
  if (world.rank() == std::stoi(word("VICTIM_RANK")))
    storage.arm(word("VICTIM_FOLDER"), word("VICTIM_CALL").c_str(), std::stoi(word("VICTIM_N")), -1);
  try {
    store.save(*run.runtime, *run.optimizer, {});
  } catch (const comm::CommError&) {
    std::_Exit(comm::kPeerLostStatus);  // the other one was killed: as expected
  }
  world.leave();
}

// Every complete checkpoint, to the last byte.
std::vector<int64_t> proven(const std::filesystem::path& folder) {
  std::vector<int64_t> steps;
  for (const auto& entry : Folder(folder).list()) {
    Reader reader(folder / entry.name());
    for (const auto& weight : reader.manifest().weights) {
      int64_t count = 1;
      for (const auto dim : weight.shape) count *= dim;
      reader.check({kWeightPart, weight.name, 0, count});
      if (weight.trainable)
        for (const auto& state : reader.manifest().states) reader.check({state, weight.name, 0, count});
    }
    steps.push_back(reader.manifest().steps);
  }
  return steps;
}

TEST(StorageFault, ARankKilledAtAnyCallOfASaveLeavesOnlyWholeCheckpoints) {
  const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;
  int killed = 0, older = 0;
  for (int victim = 0; victim < 2; ++victim)
    for (const auto* call : {"open", "write", "fsync", "rename"}) {
      // Of many calls some, unless all are wanted: the first, and then ever fewer.
      for (int n = 1, next = 1;; ++n) {
        if (!full && n != next) continue;
        next = full ? n + 1 : 4 * n;
        const io::Scratch scratch;
        const auto result = comm::launch({.ranks = 2,
                                          .command = {"/proc/self/exe", "--gtest_brief=1", "--gtest_filter=Victim.*",
                                                      "--gtest_also_run_disabled_tests"},
                                          .environment = {{"VICTIM_FOLDER", scratch.path()},
                                                          {"VICTIM_RANK", text(victim)},
                                                          {"VICTIM_CALL", call},
                                                          {"VICTIM_N", text(n)}},
                                          .prefix = false});
        SCOPED_TRACE(text(call, " ", n, " of rank ", victim));
        const auto steps = proven(scratch.path());
        const auto latest = Folder(scratch.path()).latest();
        ASSERT_TRUE(latest);
        EXPECT_FALSE(steps.empty());
        if (result.status == 0) {
          EXPECT_EQ(latest->entry.step, 2);
          break;  // there is no n-th
        }
        ASSERT_EQ(result.first->rank, victim) << result.first->reason;
        EXPECT_NE(result.first->reason.find("SIGKILL"), std::string::npos) << result.first->reason;
        EXPECT_EQ(std::count(steps.begin(), steps.end(), latest->entry.step), 1);
        ++killed;
        older += latest->entry.step == 1 ? 1 : 0;
        test::run_ranks(1, test::As::threads, [&](comm::World& world) {
          SmallRun run(world, Strategy::none);
          Store store(world.group("checkpoint"), {.folder = scratch.path()});
          store.load(store.latest().value(), *run.runtime, *run.optimizer);
          EXPECT_EQ(run.optimizer->steps(), latest->entry.step);
        });
        for (const auto& item : std::filesystem::directory_iterator(scratch.path()))
          EXPECT_FALSE(item.path().filename().string().starts_with(".tmp-")) << item.path();
      }
    }
  std::printf("%d kills: %d times the checkpoint before is the latest\n", killed, older);
  EXPECT_GE(killed, 12);
}

// What says nothing of a checkpoint is no damage of it: nothing older is loaded, and nothing is removed for it.
TEST(StorageFault, APassingFaultIsNotTakenForDamage) {
  test::run_ranks(2, test::As::processes, [](comm::World& world) {
    const auto all = world.group("all");
    SmallRun run(world, Strategy::zero3);
    const auto folder = shared_folder(all);
    Store store(world.group("checkpoint"), {.folder = folder, .keep = 2});
    for (int i = 0; i < 2; ++i) {
      run.step();
      store.save(*run.runtime, *run.optimizer, {});
    }
    test::StorageFault storage;
    for (const int fault : {EIO, ETIMEDOUT, ENOTCONN, EMFILE, EACCES}) {
      if (all.rank() == 1) storage.arm(folder / "00002_step_2", "open", 1, fault);
      EXPECT_THROW(load_newest(store, all, *run.runtime, *run.optimizer), UsageError) << std::strerror(fault);
      if (all.rank() == 1) EXPECT_TRUE(storage.disarm());
      all.barrier().wait();
    }
    EXPECT_EQ(load_newest(store, all, *run.runtime, *run.optimizer)->manifest.steps, 2);
    all.barrier().wait();
    if (all.rank() == 0) std::filesystem::remove_all(folder);
  });
}

TEST(Agreement, KeepsTheKindOfAFault) {
  test::run_ranks(2, test::As::processes, [](comm::World& world) {
    const auto all = world.group("all");
    const auto thrown = [&](const std::function<void()>& first, const std::function<void()>& second) -> std::string {
      try {
        together(all, "trying", all.rank() == 0 ? first : second);
      } catch (const io::FormatError&) {
        return "damage";
      } catch (const UsageError&) {
        return "usage";
      } catch (const Error&) {
        return "other";
      }
      return "none";
    };
    const std::function<void()> none = [] {}, memory = [] { throw std::bad_alloc(); },
                                usage = [] { throw UsageError("x"); }, damage = [] { throw io::FormatError("x"); };
    EXPECT_EQ(thrown(none, none), "none");
    EXPECT_EQ(thrown(none, memory), "other");
    EXPECT_EQ(thrown(usage, memory), "other");
    EXPECT_EQ(thrown(usage, none), "usage");
    EXPECT_EQ(thrown(none, damage), "damage");
    EXPECT_EQ(thrown(damage, memory), "damage");
    EXPECT_EQ(thrown(usage, damage), "damage");
  });
}

TEST(StorageFault, TheLedgerTakesNothingMoreAndForgetsNothing) {
  test::StorageFault storage;
  for (const auto& c : kCases) {
    const io::Scratch scratch;
    const auto file = scratch.path() / "ledger";
    int64_t made = 0;
    for (int attempt = 0; attempt < 4; ++attempt) {
      Ledger ledger(file);
      ledger.start({.key = "k", .exact = "", .event = {{"sigma", 1}}}, {},
                   {.fresh = [](uint64_t) { return FreshBytes{}; }, .repeatable = true});
      const SumDigest sum{};
      for (int64_t step = 0; step < made; ++step) ledger.spend(step, sum);
      if (c.call != std::string("write") && c.call != std::string("fsync")) break;  // it opens once and never renames
      storage.arm(scratch.path(), c.call, 2 + attempt % 2, c.fault);
      try {
        for (int i = 0; i < 4; ++i) {
          ledger.spend(made, sum);
          ++made;  // the noise is out
        }
        EXPECT_EQ(c.fault, kShort);
      } catch (const Error& fault) {
        EXPECT_NE(std::string(fault.what()).find("the step is not made"), std::string::npos) << fault.what();
        EXPECT_ANY_THROW(ledger.spend(made, sum)) << "the disk's state is unknown";
      }
      EXPECT_TRUE(storage.disarm());
      const auto spent = Ledger::read(file);
      EXPECT_GE(spent.at(0).steps, made);
      EXPECT_LE(spent.at(0).steps, made + 1);
    }
  }
}

// A signal that interrupts a call is no error of the file, whatever writes: the call is made again.
TEST(StorageFault, AnInterruptedCallIsMadeAgain) {
  test::StorageFault storage;
  const io::Scratch scratch;
  Ledger ledger(scratch.path() / "ledger");
  ledger.start({.key = "k", .exact = "", .event = {{"sigma", 1}}}, {},
               {.fresh = [](uint64_t) { return FreshBytes{}; }, .repeatable = true});
  train::RunFolder run(scratch.path());
  profile::EventFile events(scratch.path());
  int64_t step = 0;
  const std::map<std::string, std::function<void()>> writers{
      {"metrics.jsonl", [&] { run.append_metrics({{"step", step++}}); }},
      {"ledger", [&] { ledger.spend(step++, {}); }},
      {"events.",
       [&] {
         events.scalar("loss", 1, step);
         events.flush();
       }},
      {"environment.json", [&] { run.write_environment({{"date", step++}}); }},
      {"recipe.toml", [&] { run.write_recipe(text("step = ", step++, "\n")); }}};
  for (const auto& [file, act] : writers)
    for (const auto* call : {"write", "fsync"})
      for (const int fault : {EINTR, kShort}) {
        if (call == std::string("fsync") && (fault == kShort || file == "metrics.jsonl" || file == "events.")) continue;
        if (file == "ledger") step = train::spent(scratch.path());
        storage.arm(scratch.path() / file, call, 1, fault);
        EXPECT_NO_THROW(act()) << file << " " << call;
        EXPECT_TRUE(storage.disarm()) << file << " " << call;
      }
  EXPECT_EQ(train::read_metrics(scratch.path()).size(), 2u);
  EXPECT_EQ(train::spent(scratch.path()), 3);
}

}  // namespace
}  // namespace shade::checkpoint
