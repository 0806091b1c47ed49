// What the documents promise, line by line of documents.tsv: document, promise, command, exit status, files, keys,
// words.
//   command  as a user types it, in one folder for all lines of a document; " stands for the one above, which is not
//   run
//            again; VARIABLE=VALUE before it is its environment
//   files    that it leaves; * and ? match names in one folder. Pictures must be PNG, JSON must be JSON
//   keys     FILE: key key.of.object key=value; FILE: ...   (lists by index: snapshots.0.stage)
//   words    that it prints, separated by |; one that begins with ! must not be printed
#include <fnmatch.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "tests/support/process.h"

namespace shade {
namespace {

namespace fs = std::filesystem;

struct Promise {
  size_t line = 0;
  std::string document, what, command, status, files, keys, words;
};

std::vector<Promise> promises() {
  std::ifstream in(fs::path(test::source_root()) / "tests/cli/documents.tsv");
  std::vector<Promise> out;
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (number == 1) continue;  // the names of the columns
    auto cells = split(line, '\t');
    if (cells.size() != 7) throw Error(text("documents.tsv:", number, " has ", cells.size(), " columns; expected 7"));
    out.push_back({number, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]});
  }
  return out;
}

std::vector<std::string> words_of(const std::string& cell, char separator) {
  std::vector<std::string> out;
  if (cell == "-") return out;
  for (const auto& word : split(cell, separator))
    if (!trim(word).empty()) out.emplace_back(trim(word));
  return out;
}

// In this folder, as a shell would start it.
test::Outcome run(const std::string& command, const fs::path& folder) {
  test::RunOptions options{.limit = Seconds(120)};
  std::vector<std::string> words{"/bin/sh", "-c", R"(cd "$0" && exec "$@")", folder.string()};
  bool begun = false;
  for (const auto& word : words_of(command, ' ')) {
    const auto equals = word.find('=');
    if (!begun && equals != std::string::npos) {
      options.environment[word.substr(0, equals)] = word.substr(equals + 1);
      continue;
    }
    words.push_back(word == "shade" ? test::shade_binary() : word);
    begun = true;
  }
  return test::run(words, options);
}

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> matching(const fs::path& folder, const std::string& pattern) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto name = entry.path().lexically_relative(folder).string();
    if (entry.is_regular_file() && ::fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME) == 0)
      out.push_back(entry.path());
  }
  EXPECT_FALSE(out.empty()) << "no file " << pattern;
  return out;
}

void expect_file(const fs::path& folder, const std::string& pattern) {
  for (const auto& file : matching(folder, pattern)) {
    const auto bytes = content(file);
    EXPECT_GT(bytes.size(), 0u) << file;
    if (file.extension() == ".png") EXPECT_TRUE(bytes.starts_with("\x89PNG") && bytes.size() > 1000) << file;
    if (file.extension() == ".json") EXPECT_NO_THROW(read_json(file)) << file;
  }
}

const Json* at(const Json& json, const std::string& path) {
  const auto* node = &json;
  for (const auto& part : split(path, '.')) {
    const auto index = parse_integer(part);
    if (node->is_array() && index && *index < static_cast<int64_t>(node->size()))
      node = &(*node)[static_cast<size_t>(*index)];
    else if (node->is_object() && node->contains(part))
      node = &(*node)[part];
    else
      return nullptr;
  }
  return node;
}

void expect_keys(const fs::path& folder, const std::string& cell) {
  for (const auto& group : words_of(cell, ';')) {
    const auto colon = group.find(':');
    for (const auto& file : matching(folder, group.substr(0, colon))) {
      const auto json = read_json(file);
      for (const auto& word : words_of(group.substr(colon + 1), ' ')) {
        const auto equals = word.find('=');
        const auto* value = at(json, word.substr(0, equals));
        EXPECT_NE(value, nullptr) << file << " has no " << word.substr(0, equals);
        if (value == nullptr || equals == std::string::npos) continue;
        EXPECT_EQ(value->is_string() ? value->get<std::string>() : value->dump(), word.substr(equals + 1))
            << file << " " << word;
      }
    }
  }
}

// What lines of the table read: texts in all three forms, a result that is none, and a recipe.
void prepare(const fs::path& folder) {
  for (const auto* name : {"formats", "broken"}) fs::create_directories(folder / name);
  for (int i = 0; i < 20; ++i) std::ofstream(folder / "formats" / text(i, ".txt")) << "a text of some words " << i;
  std::ofstream(folder / "formats" / "b.json") << R"([{"text": "one text"}, {"text": "another text"}])";
  std::ofstream(folder / "formats" / "c.jsonl") << "{\"text\": \"a line\"}\n{\"text\": \"a second line\"}\n";
  std::ofstream(folder / "broken" / "cut_result.json") << "{\"mode\": ";
  std::ofstream(folder / "recipe.toml") << R"([model]
model = "llama-nano"
from_scratch = true
[dp]
mode = "ghost_fsdp"
noise_multiplier = 1.0
[train]
global_batch_size = 8
steps = 2
seq = 16
synthetic = true
records = 64
)";
}

// The lines of one document, one after the other, in a folder of their own.
void check(const std::string& document, const fs::path& folder) {
  prepare(folder);
  test::Outcome seen;
  std::string command;
  for (const auto& promise : promises()) {
    if (promise.document != document) continue;
    if (promise.command != "\"") {
      command = promise.command;
      seen = run(command, folder);
    }
    SCOPED_TRACE(text("documents.tsv:", promise.line, " (", document, "): ", promise.what, "\n", command));
    EXPECT_EQ(std::to_string(seen.status), promise.status) << seen.output;
    for (const auto& file : words_of(promise.files, ' ')) expect_file(folder, file);
    expect_keys(folder, promise.keys);
    for (const auto& words : words_of(promise.words, '|')) {
      const bool absent = words.starts_with("!");
      EXPECT_EQ(seen.output.find(absent ? words.substr(1) : words) == std::string::npos, absent) << words << "\n"
                                                                                                 << seen.output;
    }
  }
}

TEST(Documents, EveryPromiseIsKept) {
  const auto root = fs::temp_directory_path() / text("shade_documents_", ::getpid());
  std::set<std::string> documents;
  for (const auto& promise : promises()) documents.insert(promise.document);
  EXPECT_EQ(documents, (std::set<std::string>{"1 llama", "2 bottlenecks", "3 zero", "4 linear", "5 dit", "words"}));
  const std::vector<std::string> all(documents.begin(), documents.end());
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> lanes;  // two: most of a small run is its start, on one core
    for (int lane = 0; lane < 2; ++lane)
      lanes.emplace_back([&] {
        for (size_t i = next++; i < all.size(); i = next++) check(all[i], root / all[i]);
      });
  }
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.is_regular_file())
      EXPECT_EQ(content(entry.path()).find("hf_not_for_files"), std::string::npos) << "a token in " << entry.path();
  if (!HasFailure()) fs::remove_all(root);
}

// Ranks as a launcher starts them: one drives and says what is wrong, the others end as it does.
TEST(Documents, EveryRankOfALauncherEndsAsTheFirst) {
  using Variables = std::vector<std::string>;
  for (const auto& [rank_names, size_names] :
       {std::pair<Variables, Variables>{{"SLURM_PROCID", "SLURM_LOCALID"}, {"SLURM_NTASKS"}},
        {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
         {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}}}) {
    for (const auto& [verb, status] : {std::pair("compare", 2), {"scan", 2}}) {
      std::vector<test::Outcome> seen(2);
      const auto port = std::to_string(test::new_port());
      {
        std::vector<std::jthread> ranks;
        for (const int rank : {1, 0})
          ranks.emplace_back([&, rank] {
            test::RunOptions options{.limit = Seconds(60)};
            for (const auto& name : rank_names) options.environment[name] = std::to_string(rank);
            for (const auto& name : size_names) options.environment[name] = "2";
            options.environment["MASTER_PORT"] = port;
            seen[static_cast<size_t>(rank)] = test::run({test::shade_binary(), verb, "--no-such-option", "1"}, options);
          });
      }
      for (const auto& outcome : seen) EXPECT_EQ(outcome.status, status) << verb << ": " << outcome.output;
      EXPECT_NE(seen[0].output.find("--no-such-option"), std::string::npos) << seen[0].output;
      EXPECT_EQ(seen[1].output, "") << "one message for the job";
    }
  }
}

TEST(Documents, TorchrunItselfRunsAMatrix) {
  const auto torchrun = fs::path(test::source_root()) / ".deps/peers/bin/torchrun";
  if (!fs::exists(torchrun)) GTEST_SKIP() << "the peers are not installed";
  const auto folder = fs::temp_directory_path() / text("shade_torchrun_", ::getpid());
  const auto seen = test::run({torchrun.string(),
                               "--no-python",
                               "--nproc_per_node=2",
                               "--standalone",
                               test::shade_binary(),
                               "compare",
                               "--model",
                               "linear-nano",
                               "--shard",
                               "zero2,zero3",
                               "--batch-size",
                               "8",
                               "--num-iter",
                               "1",
                               "--warmup-iter",
                               "0",
                               "--repeat",
                               "1",
                               "--output-dir",
                               folder.string()},
                              {.limit = Seconds(120)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  expect_keys(folder, "*_result.json: num_ranks=2");
  fs::remove_all(folder);
}

TEST(Documents, ThereAreSixtyPromisesAtLeast) { EXPECT_GE(promises().size(), 60u); }

}  // namespace
}  // namespace shade
