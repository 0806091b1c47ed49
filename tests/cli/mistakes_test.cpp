// What users get wrong, row by row of mistakes.tsv: mistake, command, exit status, found, remedy.
//   command  a line of the shell, in a folder that all rows share; `shade` is the program under test
//   found    words of the message that name what is wrong
//   remedy   words of it that say what to do
// A message is one: no rank repeats it, and there is no backtrace and no name of our own code in it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "shade/base/strings.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade {
namespace {

namespace fs = std::filesystem;

struct Mistake {
  size_t line = 0;
  std::string what, command, status, found, remedy;
};

std::vector<Mistake> mistakes() {
  std::ifstream in(fs::path(test::source_root()) / "tests/cli/mistakes.tsv");
  std::vector<Mistake> out;
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    if (number == 1) continue;  // the names of the columns
    const auto cells = split(line, '\t');
    if (cells.size() != 5) throw Error(text("mistakes.tsv:", number, " has ", cells.size(), " columns; expected 5"));
    out.push_back({number, cells[0], cells[1], cells[2], cells[3], cells[4]});
  }
  return out;
}

// What rows of the table read.
void prepare(const fs::path& folder) {
  io::write_file(folder / "records/r.jsonl", "{\"text\": \"one text\"}\n{\"text\": \"another text\"}\n");
  io::write_file(folder / "broken/bad.jsonl", "{\"text\": \"one text\"}\n{\"text\": \n");
  io::write_file(folder / "strange/s.jsonl", "{\"body\": \"one text\"}\n");
  io::write_file(folder / "cut/cut_result.json", "{\"mode\": ");
  fs::create_directories(folder / "nothing");
  io::write_file(folder / "shelf/tiny/config.json", "{}");
  for (const auto* run : {"one", "two"}) io::write_file(folder / "runs" / run / "recipe.toml", "");
  io::write_file(folder / "wards/w.jsonl",
                 "{\"text\": \"a\", \"label\": \"cardiology\"}\n{\"text\": \"b\", \"label\": \"Cardiology\"}\n"
                 "{\"text\": \"c\", \"label\": \"surgery\"}\n");
  io::write_file(folder / "empty.toml", "");
  ::mkfifo((folder / "pipe").c_str(), 0600);
  io::write_file(folder / "odd/\xff.jsonl", "{\"text\": \"one text\"}\n");
  io::write_file(folder / "three.toml",
                 "[model]\nmodel = \"llama-nano\"\nfrom_scratch = true\n[train]\nsteps = three\n");
  io::write_file(folder / "unquoted.toml", "[model]\nmodel = llama-nano\n");
  io::write_file(folder / "valueless.toml", "[model]\nmodel =\n");
  io::write_file(folder / "colon.toml", "[model]\nmodel: \"llama-nano\"\n");
  io::write_file(folder / "sectionless.toml", "steps = 3\n");
  io::write_file(folder / "typo.toml", "[train]\nsynthetic = true\nstesp = 3\n");
  io::write_file(folder / "wrong_section.toml", "[train]\nlr = 0.1\n");
  io::write_file(folder / "wrong_type.toml", "[train]\nsynthetic = true\nsteps = \"many\"\n");
  io::write_file(folder / "unused.toml",
                 "[model]\nmodel = \"linear-nano\"\nfrom_scratch = true\n[optim]\nmomentum = 0.9\n[train]\n"
                 "synthetic = true\n");
  io::write_file(
      folder / "plain.toml",
      "[model]\nmodel = \"llama-nano\"\nfrom_scratch = true\n[dp]\ndp = \"none\"\n[train]\nsynthetic = true\n"
      "steps = 1\n");
}

test::Outcome in_shell(const std::string& command, const fs::path& folder) {
  const auto programs = fs::path(test::shade_binary()).parent_path().string();
  return test::run({"/bin/sh", "-c", "cd \"$0\" && " + command, folder.string()},
                   {.environment = {{"PATH", text(programs, ":", std::getenv("PATH"))}}, .limit = Seconds(60)});
}

size_t count(const std::string& all, const std::string& words) {
  size_t out = 0;
  for (auto at = all.find(words); at != std::string::npos; at = all.find(words, at + words.size())) ++out;
  return out;
}

TEST(Mistakes, EachHasOneClearMessage) {
  const auto folder = fs::temp_directory_path() / text("shade_mistakes_", ::getpid());
  prepare(folder);
  const auto made = in_shell(
      "shade train --model llama-nano --from-scratch --task lm --vocab-size 260 --synthetic --records 16 --steps 1 "
      "--batch-size 4 --micro-batch 4 --seq-length 8 --peak-gflops 100 --output tiny_run --export tiny --tokenizer "
      "bytes",
      folder);
  ASSERT_EQ(made.status, 0) << made.output;
  const auto all = mistakes();
  std::vector<test::Outcome> seen(all.size());
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> lanes;
    for (int lane = 0; lane < 2; ++lane)
      lanes.emplace_back([&] {
        for (size_t i = next++; i < all.size(); i = next++) seen[i] = in_shell(all[i].command, folder);
      });
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& output = seen[i].output;
    SCOPED_TRACE(text("mistakes.tsv:", all[i].line, ": ", all[i].what, "\n", all[i].command, "\n", output));
    EXPECT_EQ(std::to_string(seen[i].status), all[i].status);
    EXPECT_EQ(count(output, all[i].found) > 0, true) << "not said: " << all[i].found;
    EXPECT_EQ(count(output, all[i].remedy) > 0, true) << "no remedy: " << all[i].remedy;
    EXPECT_LE(count(output, "--help shows the options"), 1u) << "repeated";
    for (const auto* ours : {"frame #", "terminate", "[internal", "std::", "c10::", "c10d", "World::", "alloc_cpu",
                             "filesystem error", "json.exception", "basic_", "FATAL"})
      EXPECT_EQ(count(output, ours), 0u) << ours;
  }
  if (!HasFailure()) fs::remove_all(folder);
}

TEST(Mistakes, AreManyAndDifferent) {
  std::set<std::string> names, commands;
  for (const auto& one : mistakes()) {
    names.insert(one.what);
    commands.insert(one.command);
    EXPECT_NE(one.status, "0") << one.what;
    EXPECT_FALSE(one.found.empty() || one.remedy.empty()) << one.what;
  }
  EXPECT_GE(names.size(), 80u);
  EXPECT_EQ(commands.size(), mistakes().size());
}

}  // namespace
}  // namespace shade
