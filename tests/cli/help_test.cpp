// Help texts as a user reads them: noun phrases with range and default, short where there are many options.
#include <gtest/gtest.h>

#include <cctype>
#include <set>
#include <sstream>

#include "shade/base/strings.h"
#include "shade/cli/help_formatter.h"
#include "shade/cli/memory.h"
#include "tests/support/process.h"

namespace shade {
namespace {

struct Described {
  std::string names, words;
};

// Options of --help: names and type, then the description from its column on, on the same line or the next.
std::vector<Described> options_of(const std::string& help) {
  std::vector<Described> out;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line) && line != "Aliases:" && !line.starts_with("Example");) {
    if (line.starts_with("  -")) {
      const bool both = line.size() > cli::kHelpColumn && line[cli::kHelpColumn - 1] == ' ' &&
                        line.find(' ', cli::kHelpColumn) != std::string::npos;
      const auto names = std::string(trim(both ? line.substr(0, cli::kHelpColumn) : line));
      out.push_back({names, both ? line.substr(cli::kHelpColumn) : ""});
    } else if (!out.empty() && out.back().words.empty()) {
      out.back().words = trim(line);
    }
  }
  return out;
}

std::string help_of(const std::string& verb, const std::string& option = "--help") {
  const auto seen = test::run({test::shade_binary(), verb, option});
  EXPECT_EQ(seen.status, 0) << seen.output;
  return seen.output;
}

size_t words_in(const std::string& text) {
  std::istringstream in(text.substr(0, text.rfind(" [")));
  size_t out = 0;
  for (std::string word; in >> word;) ++out;
  return out;
}

TEST(Help, OptionsAreFullNounPhrases) {
  for (const std::string verb : {"account", "audit", "bench", "calibrate", "comm", "data", "eval", "generate", "ledger",
                                 "release", "train", "verify"}) {
    size_t fields = 0;
    for (const auto& [names, words] : options_of(help_of(verb, verb == "train" ? "--help-all" : "--help"))) {
      SCOPED_TRACE(text(verb, " ", names, ": ", words));
      EXPECT_GE(words_in(words), 2u);
      EXPECT_FALSE(words.starts_with("of ") || words.starts_with("only ") || words.starts_with("how "));
      if (names.find('.') == std::string::npos) continue;  // a field has --section.key among its names
      ++fields;
      EXPECT_TRUE(words.ends_with("]")) << "no default";
      EXPECT_EQ(words.find("[empty]"), std::string::npos);
    }
    EXPECT_GT(fields, 2u) << verb;
  }
}

TEST(Help, OfTrainingShowsTheOptionsMostUsed) {
  const auto help = help_of("train"), all = help_of("train", "--help-all");
  std::set<std::string> fields, names;
  for (const auto& one : options_of(help)) {
    const auto name = one.names.substr(0, one.names.find(' '));
    if (!name.starts_with("-h")) names.insert(name);
  }
  for (const auto* common : {"--help-all", "--json", "--ranks", "--log-level"}) names.erase(common);
  EXPECT_EQ(names.size(), 20u) << help;
  for (const auto* name : {"--model", "--data-folder", "--dp", "--target-epsilon", "--steps", "--shard", "--output"})
    EXPECT_TRUE(names.contains(name)) << name;
  for (const auto& name : names) EXPECT_NE(all.find("  " + name), std::string::npos) << name << " is not in --help-all";
  EXPECT_EQ(help.find("--save-interval"), std::string::npos);
  EXPECT_NE(all.find("--save-interval"), std::string::npos);
  EXPECT_GT(options_of(all).size(), 100u);
  EXPECT_NE(help.find("shade train --help-all lists all of them"), std::string::npos);
  const auto examples = help.substr(help.find("Examples:"));
  size_t number = 0;
  for (auto at = examples.find("\n  shade train "); at != std::string::npos;
       at = examples.find("\n  shade train ", at + 1))
    ++number;
  EXPECT_EQ(number, 3u) << examples;
}

TEST(Help, SaysRanges) {
  const auto help = help_of("train", "--help-all");
  EXPECT_NE(help.find("(0 to 4096) [0]"), std::string::npos) << "threads";
  EXPECT_NE(help.find("(at least 1) [64 samples]"), std::string::npos) << "batch size";
  EXPECT_NE(help.find("(1.0s to 86400.0s) (only with several ranks) [10.0s]"), std::string::npos) << "peer timeout";
  EXPECT_EQ(help.find("simulated"), std::string::npos) << "a backend for programs";
}

// The words of libtorch's allocators, which are of no use to a person.
TEST(OutOfMemory, IsSaidInWordsOfOurs) {
  const auto cpu = cli::out_of_memory(
      "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
      "1600080000 bytes. Error code 12 (Cannot allocate memory)");
  ASSERT_TRUE(cpu);
  EXPECT_TRUE(cpu->starts_with("out of memory: cannot allocate memory for a tensor of 1.49 GiB; a smaller batch"))
      << *cpu;
  const auto gpu = cli::out_of_memory("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...\nframe #1");
  ASSERT_TRUE(gpu);
  EXPECT_TRUE(gpu->starts_with("out of memory: cannot allocate memory; a smaller batch")) << *gpu;
  EXPECT_EQ(gpu->find("frame"), std::string::npos) << *gpu;
  EXPECT_FALSE(cli::out_of_memory("a file is missing"));
  EXPECT_TRUE(cli::out_of_memory("out of memory: tried to allocate "));
}

TEST(Help, IsWrappedBetweenWords) {
  EXPECT_EQ(cli::wrapped("one two three", 0), "one two three");
  EXPECT_EQ(cli::wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(cli::wrapped("one two three", 3), "one\ntwo\nthree") << "a longer word has its own line";
  EXPECT_EQ(cli::wrapped("", 10), "");
}

}  // namespace
}  // namespace shade
