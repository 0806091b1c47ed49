// A checkpoint with anything wrong in it is not loaded, and what was in memory stays.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "shade/checkpoint/store.h"
#include "shade/io/errors.h"
#include "shade/io/safetensors_writer.h"
#include "tests/checkpoint/small_run.h"
#include "tests/io/scratch.h"
#include "tests/support/ranks.h"

namespace shade::checkpoint {
namespace {

using io::content;
using io::Scratch;
using shard::Strategy;
using test::As;
using test::run_ranks;

void save_two(const std::filesystem::path& folder) {
  run_ranks(3, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::zero3);
    Store store(world.group("checkpoint"), {.folder = folder});
    for (int i = 0; i < 2; ++i) {
      run.step();
      store.save(*run.runtime, *run.optimizer, {{"i", i}});
    }
  });
}

struct Damage {
  std::string what;
  std::map<std::filesystem::path, std::string> files;  // changed; the others stay
};

using Random = std::mt19937_64;
size_t below(Random& random, size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); }

Damage harm(Random& random, const std::map<std::filesystem::path, std::string>& whole) {
  const auto any = [&] { return std::next(whole.begin(), static_cast<ptrdiff_t>(below(random, whole.size()))); };
  const auto victim = any();
  auto bytes = victim->second;
  switch (below(random, 6)) {
    case 0: {
      const auto bit = below(random, bytes.size() * 8);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      return {text("bit ", bit, " of ", victim->first), {{victim->first, bytes}}};
    }
    case 1: {
      const auto at = below(random, bytes.size());
      bytes[at] = static_cast<char>(bytes[at] + 1 + static_cast<int>(below(random, 255)));
      return {text("byte ", at, " of ", victim->first), {{victim->first, bytes}}};
    }
    case 2:
      bytes.resize(below(random, bytes.size()));
      return {text(victim->first, " cut to ", bytes.size()), {{victim->first, bytes}}};
    case 3: {
      const auto at = below(random, bytes.size()), size = 1 + below(random, bytes.size() - at);
      if (std::all_of(bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + size),
                      [](char c) { return c == 0; }))
        return harm(random, whole);
      std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(at), size, '\0');
      return {text(victim->first, " zeroed at ", at), {{victim->first, bytes}}};
    }
    case 4:
      bytes += std::string(1 + below(random, 64), 'x');
      return {text(victim->first, " longer"), {{victim->first, bytes}}};
    default: break;
  }
  const auto other = any();
  if (other->second == bytes) return harm(random, whole);
  return {text(victim->first, " and ", other->first, " swapped"),
          {{victim->first, other->second}, {other->first, bytes}}};
}

void put(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

// Of the latest checkpoint's files (an older checkpoint's are among those that get swapped in), and LATEST.
TEST(Damage, AThousandRandomOnesAreAllNoticedBeforeALiveTensorIsTouched) {
  const Scratch scratch;
  save_two(scratch.path());
  std::map<std::filesystem::path, std::string> whole{{scratch.path() / "LATEST", {}}};
  for (const auto* entry : {"00001_step_1", "00002_step_2"})
    for (const auto& file : std::filesystem::directory_iterator(scratch.path() / entry)) whole[file.path()];
  for (auto& [path, bytes] : whole) bytes = content(path);
  ASSERT_EQ(whole.size(), 15u) << "two manifests, two times six files, LATEST";
  run_ranks(1, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::none);
    const auto all = world.group("all");
    Store store(world.group("checkpoint"), {.folder = scratch.path()});
    run.step();
    const auto before = run.everything(all);
    Random random(8);
    const int count = std::getenv("SHADE_FULL_MATRIX") != nullptr ? 10'000 : 1000;
    int noticed = 0, elsewhere = 0;
    for (int i = 0; i < count; ++i) {
      const auto damage = harm(random, whole);
      for (const auto& [path, bytes] : damage.files) put(path, bytes);
      // What is not in the latest checkpoint doesn't hurt it; then the damaged one must not be loaded.
      for (const auto* entry : {"00001_step_1", "00002_step_2"}) {
        const bool hit = std::any_of(damage.files.begin(), damage.files.end(), [&](const auto& file) {
          return file.first.filename() != "LATEST" && file.first.parent_path().filename() == entry;
        });
        if (!hit) continue;
        EXPECT_THROW(store.load({scratch.path() / entry, {}}, *run.runtime, *run.optimizer), Error) << damage.what;
        ++elsewhere;
      }
      const bool latest_hit = std::any_of(damage.files.begin(), damage.files.end(), [&](const auto& file) {
        return file.first.filename() == "LATEST" || file.first.parent_path().filename() == "00002_step_2";
      });
      if (latest_hit) {
        EXPECT_THROW(store.load(store.latest().value(), *run.runtime, *run.optimizer), std::exception) << damage.what;
        ++noticed;
      }
      for (const auto& [path, bytes] : damage.files) put(path, whole.at(path));
    }
    EXPECT_GT(noticed, count / 3);
    std::printf("%d damaged checkpoints, %d times the latest\n", elsewhere, noticed);
    EXPECT_EQ(run.optimizer->steps(), 1);
    for (const auto& [name, value] : run.everything(all)) EXPECT_TRUE(at::equal(value, before.at(name))) << name;
    store.load(store.latest().value(), *run.runtime, *run.optimizer);
    EXPECT_EQ(run.optimizer->steps(), 2) << "mended, it loads";
  });
}

// Each rank reads a part; the one that finds the damage tells the others, who found nothing.
TEST(Damage, IsToldToAllRanksAndTouchesNoneOfThem) {
  const Scratch scratch;
  save_two(scratch.path());
  const auto file = scratch.path() / "00002_step_2" / file_name(2);
  auto bytes = content(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  put(file, bytes);
  std::atomic<int> told{0};
  run_ranks(3, As::threads, [&](comm::World& world) {
    SmallRun run(world, Strategy::zero3);  // as it was saved: rank 2 alone reads that file's data
    const auto all = world.group("all");
    Store store(world.group("checkpoint"), {.folder = scratch.path()});
    const auto before = run.everything(all);
    const auto message =
        io::message_of<io::FormatError>([&] { store.load(store.latest().value(), *run.runtime, *run.optimizer); });
    EXPECT_NE(message.find("failed on rank 2: "), std::string::npos) << message;
    EXPECT_NE(message.find("is not what was saved; the checkpoint is damaged"), std::string::npos);
    ++told;
    for (const auto& [name, value] : run.everything(all)) EXPECT_TRUE(at::equal(value, before.at(name))) << name;
    store.load({store.list()[0], {}}, *run.runtime, *run.optimizer);
    EXPECT_EQ(run.optimizer->steps(), 1);
  });
  EXPECT_EQ(told, 3);
}

// An attacker makes everything fit but the pieces.
struct Forged {
  explicit Forged(const std::filesystem::path& f) : folder(f) {
    std::filesystem::create_directories(folder);
    manifest.weights = {{"w", {4}, true}};
  }
  void piece(const std::string& name, const at::Tensor& values) { pieces.emplace(name, values); }
  std::string fault() {
    io::Metadata digests;
    for (const auto& [name, values] : pieces)
      if (digested)
        digests.emplace(
            name,
            hash::to_hex(hash::digest_of({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()})));
    io::write_safetensors(folder / file_name(0), pieces, digests);
    const auto bytes = content(folder / file_name(0));
    const auto header = io::parse_safetensors_header(std::as_bytes(std::span(bytes)));
    manifest.files = {{bytes.size(), hash::digest_of(std::string_view(bytes).substr(0, header.data_begin))}};
    put(folder / kManifestFile, print_manifest(manifest));
    return io::message_of<io::FormatError>([&] { Reader reader(folder); });
  }
  std::filesystem::path folder;
  Manifest manifest;
  io::TensorMap pieces;
  bool digested = true;
};

TEST(Damage, PiecesMustCoverEveryWeightOnce) {
  const Scratch scratch;
  int count = 0;
  const auto fault = [&](const io::TensorMap& pieces, bool digested = true) {
    Forged forged(scratch.path() / text(count++));
    forged.pieces = pieces;
    forged.digested = digested;
    return forged.fault();
  };
  const auto of = [](int64_t size) { return at::ones({size}); };
  EXPECT_NE(fault({}).find("cover 0 of 4 elements"), std::string::npos);
  EXPECT_NE(fault({{"weight/w@0", of(3)}}).find("cover 3 of 4"), std::string::npos);
  EXPECT_NE(fault({{"weight/w@0", of(2)}, {"weight/w@3", of(1)}}).find("cover 2 of 4"), std::string::npos);
  EXPECT_NE(fault({{"weight/w@0", of(3)}, {"weight/w@2", of(2)}}).find("cover 3 of 4"), std::string::npos);
  EXPECT_NE(fault({{"weight/w@0", of(4)}, {"weight/w@4", of(1)}}).find("without overlap or hole"), std::string::npos);
  EXPECT_NE(fault({{"weight/w@0", of(5)}}).find("cover 0 of 4"), std::string::npos);
  EXPECT_NE(fault({{"weight/w@9223372036854775807", of(4)}}).find("cover 0 of 4"), std::string::npos);
  EXPECT_NE(fault({{"weight/w@0", of(2)}, {"weight/w@2", of(2).to(at::kBFloat16)}}).find("another type"),
            std::string::npos);
  EXPECT_NE(fault({{"weight/w@0", at::ones({2, 2})}}).find("not a flat"), std::string::npos);
  EXPECT_NE(fault({{"weight/v@0", of(4)}}).find("of which the manifest doesn't know"), std::string::npos);
  EXPECT_NE(fault({{"exp_avg/w@0", of(4)}}).find("of which the manifest doesn't know"), std::string::npos);
  for (const auto* name :
       {"w", "weight/w", "weight/w@", "weight/w@-1", "weight/w@00", "/w@0", "weight/@0", "weight/w@0x"})
    EXPECT_NE(fault({{name, of(4)}}).find("is not called PART/WEIGHT@BEGIN"), std::string::npos) << name;
  EXPECT_NE(fault({{"weight/w@0", of(4)}}, false).find("has no digest of"), std::string::npos);
}

}  // namespace
}  // namespace shade::checkpoint
