#include "shade/data/token_store.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "folder.h"
#include "shade/base/log.h"
#include "shade/base/sanitizer.h"
#include "shade/data/witness.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

const ByteTokenizer kBytes;

std::shared_ptr<const TokenStore> opened(const fs::path& folder, int64_t max_records = 0) {
  return TokenStore::open({.folder = folder, .max_records = max_records, .cache = {}}, kBytes);
}

std::string text_of(const TokenStore& store, int64_t record) {
  const auto [begin, end, label] = store.entry(record);
  std::vector<int64_t> ids(end - begin);
  store.read(begin, ids);
  return {ids.begin(), ids.end()};
}

TEST(TokenStore, IsMadeOnceAndFoundAgain) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two!\"}\n{\"text\":\"\"}");
  const auto first = opened(folder.path());
  EXPECT_FALSE(first->reused());
  const auto second = opened(folder.path());
  EXPECT_TRUE(second->reused());
  for (const auto& store : {first, second}) {
    EXPECT_EQ(store->records(), 2);
    EXPECT_EQ(store->tokens(), 7);
    EXPECT_EQ(store->empty_records(), 1);
    EXPECT_EQ(text_of(*store, 0), "one");
    EXPECT_EQ(text_of(*store, 1), "two!");
  }
  EXPECT_EQ(fs::status(folder.path() / ".shade").permissions(), fs::perms::owner_all);
}

// A copy of the records: nobody else's, whatever the umask and whoever made the folder.
TEST(TokenStore, IsReadByItsOwnerAlone) {
  const Folder folder;
  folder.put("a.txt", "one");
  const auto cache = folder.path() / "cache";
  const auto umask = ::umask(0);
  fs::create_directories(cache);  // by hand, as others make theirs
  const auto closed = [&] {
    TokenStore::open({.folder = folder.path(), .cache = cache}, kBytes);
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(cache)) {
      const auto wanted = entry.is_directory() ? fs::perms::owner_all : fs::perms::owner_read | fs::perms::owner_write;
      EXPECT_EQ(entry.status().permissions(), wanted) << entry.path();
      ++files;
    }
    EXPECT_EQ(files, 5) << "lock, store, manifest, tokens, records";
    EXPECT_EQ(fs::status(cache).permissions(), fs::perms::all) << "it may hold other things";
  };
  closed();
  for (const auto& entry : fs::recursive_directory_iterator(cache))  // as 0.1.0 left them
    if (entry.path().filename() != "lock")
      fs::permissions(entry.path(), entry.is_directory() ? fs::perms(0755) : fs::perms(0644));
  closed();
  ::umask(umask);
}

void flip_first_byte(const fs::path& file) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto first = static_cast<char>(bytes.peek());
  bytes.seekp(0);
  bytes.put(static_cast<char>(first ^ 1));
}

// A host takes another's word for the folder that both see, and for no other.
TEST(TokenStore, AWitnessVouchesForItsOwnFolderAlone) {
  const Folder folder, elsewhere;
  folder.put("a.txt", "one");
  const auto cached = [&](const fs::path& cache, const Proof& proof) {
    return TokenStore::open({.folder = folder.path(), .cache = cache, .proof = proof}, kBytes);
  };
  const auto here = folder.path() / "cache", there = elsewhere.path() / "cache";
  std::string name;
  {
    const Witness witness(cached(here, {})->place());
    name = witness.name();
    const auto other = cached(there, {})->place();
    flip_first_byte(cached(here, {})->place() / "tokens");
    flip_first_byte(other / "tokens");
    EXPECT_TRUE(cached(here, {.witness = name})->reused()) << "its bytes are not read";
    EXPECT_FALSE(cached(there, {.witness = name})->reused()) << "they are, and one is wrong";
    fs::resize_file(other / "tokens", 2);
    EXPECT_FALSE(cached(there, {.on_this_host = true})->reused()) << "sizes are looked at in any case";
  }
  EXPECT_FALSE(cached(here, {.witness = name})->reused()) << "the witness has gone";
}

TEST(TokenStore, OtherContentIsAnotherStore) {
  const Folder folder;
  const auto file = folder.put("a.txt", "one\n\ntwo");
  opened(folder.path());
  EXPECT_FALSE(opened(folder.path(), 1)->reused());
  const auto with = [&](RecordOptions records) {
    return TokenStore::open({.folder = folder.path(), .records = std::move(records)}, kBytes)->reused();
  };
  EXPECT_FALSE(with({.unit = TextUnit::line}));
  EXPECT_FALSE(with({.fields = {.text = "text"}}));
  EXPECT_TRUE(with({.fields = {.text = "text"}}));
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_FALSE(opened(folder.path())->reused());
  folder.put("b.txt", "x");
  EXPECT_FALSE(opened(folder.path())->reused());
  EXPECT_TRUE(opened(folder.path())->reused());
  fs::rename(file, folder.path() / "c.txt");
  EXPECT_FALSE(opened(folder.path())->reused());
}

TEST(TokenStore, TheLimitOfRecordsCountsOverFiles) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"one\"}\n{\"text\":\"\"}\n{\"text\":\"two\"}\n");
  folder.put("b.jsonl", "{\"text\":\"three\"}\nbroken");
  const auto store = opened(folder.path(), 3);
  EXPECT_EQ(store->records(), 3);
  EXPECT_EQ(text_of(*store, 2), "three");
  message_of<io::FormatError>([&] { opened(folder.path()); });
}

TEST(TokenStore, NothingIsLeftOfAFailedReading) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"one\"}\nbroken");
  message_of<io::FormatError>([&] { opened(folder.path()); });
  for (const auto& entry : fs::recursive_directory_iterator(folder.path() / ".shade"))
    EXPECT_TRUE(entry.is_directory() || entry.path().filename() == "lock") << entry.path();
  folder.put("a.jsonl", "{\"text\":\"\"}\n");
  EXPECT_NE(message_of<UsageError>([&] { opened(folder.path()); }).find("no record with text: 1 files, 1 empty"),
            std::string::npos);
}

// One wrong bit or a cut anywhere is noticed, and the store made again is the first one.
TEST(TokenStore, DamageIsNoticedAndMended) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"one\",\"label\":\"x\"}\n{\"text\":\"two\",\"label\":\"y\"}");
  const auto place = opened(folder.path())->place();
  log::set_level(log::Level::off);  // it warns each time
  for (const char* name : {"tokens", "records", "manifest"}) {
    const auto good = io::content(place / name);
    ASSERT_FALSE(good.empty());
    for (size_t at = 0; at <= good.size(); at = at == good.size() ? at + 1 : std::min(good.size(), at + 5)) {
      auto bad = good.substr(0, at);  // cut ...
      if (at % 2 == 0 && at < good.size()) {
        bad = good;  // ... or one bit wrong
        bad[at] = static_cast<char>(bad[at] ^ (1 << at % 7));
      }
      if (at == good.size()) bad += '\0';
      std::ofstream(place / name, std::ios::binary) << bad;
      const auto store = opened(folder.path());
      ASSERT_FALSE(store->reused()) << name << " byte " << at;
      ASSERT_EQ(text_of(*store, 1), "two");
      ASSERT_EQ(io::content(place / name), good);
    }
  }
  log::set_level(log::Level::warning);
}

TEST(TokenStore, ACacheInTheFolderIsNotData) {
  const Folder folder;
  folder.put("a.txt", "one");
  const StoreRequest request{.folder = folder.path(), .cache = folder.path() / "cache"};
  EXPECT_FALSE(TokenStore::open(request, kBytes)->reused());
  EXPECT_TRUE(TokenStore::open(request, kBytes)->reused());
}

TEST(TokenStore, ACacheThatCannotBeWrittenIsSaid) {
  const Folder folder;
  folder.put("a.txt", "one");
  folder.put("file", "");
  const auto message = message_of<UsageError>(
      [&] { TokenStore::open({.folder = folder.path(), .cache = folder.path() / "file"}, kBytes); });
  EXPECT_NE(message.find("--cache-folder"), std::string::npos) << message;
}

TEST(TokenStore, ManyProcessesMakeOne) {
  const Folder folder;
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += text("{\"text\":\"record ", i, "\"}\n");
  folder.put("a.jsonl", lines);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      const auto store = opened(folder.path());
      ::_exit(text_of(*store, 19999) != "record 19999" ? 9 : store->reused() ? 1 : 0);
    }
  }
  int makers = 0;
  for (const auto child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    makers += WEXITSTATUS(status) == 0 ? 1 : 0;
  }
  EXPECT_EQ(makers, 1);
}

// Resident memory, in KiB.
int64_t resident() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  return 0;
}

TEST(TokenStore, MemoryDoesNotGrowWithTheFolder) {
  if (SHADE_SANITIZED) GTEST_SKIP() << "a sanitizer keeps what was freed";
  const Folder folder;
  const auto fill = [&](const char* name, int megabytes) {
    std::ofstream out(folder.path() / name);
    const std::string record = "{\"text\":\"" + std::string(1000, 'x') + "\"}\n";
    for (int i = 0; i < megabytes * 1000; ++i) out << record;
  };
  const auto read_all = [&] {
    const auto store = opened(folder.path());
    std::vector<int64_t> ids(1000);
    for (int64_t i = 0; i < store->records(); ++i) store->read(store->entry(i).begin, ids);
    return store->records();
  };
  fill("a.jsonl", 2);
  EXPECT_EQ(read_all(), 2000);
  const auto before = resident();
  fill("b.jsonl", 60);
  EXPECT_EQ(read_all(), 62000);
  EXPECT_LT(resident() - before, 20 << 10);  // a third of what was read; encoding threads have heaps of their own
}

}  // namespace
}  // namespace shade::data
