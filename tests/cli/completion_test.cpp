// Shell completion and man pages, as a shell and a man program take them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

bool there(const std::string& program) {
  return test::run({"sh", "-c", "command -v " + program + " > /dev/null"}).status == 0;
}

std::string script_of(const std::string& shell, const std::filesystem::path& folder) {
  const auto file = (folder / ("shade." + shell)).string();
  const auto made = test::run({"sh", "-c", text(test::shade_binary(), " completion ", shell, " > ", file)});
  EXPECT_EQ(made.status, 0) << made.output;
  return file;
}

// What bash offers for these words, of which the last one is being typed.
std::set<std::string> offered(const std::string& script, const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += text("'", word, "' ");
  const auto seen = test::run({"bash", "-c",
                               text(". ", script, "; COMP_WORDS=(", line, "); COMP_CWORD=", words.size() - 1,
                                    "; _shade; printf '%s\\n' \"${COMPREPLY[@]}\"")});
  EXPECT_EQ(seen.status, 0) << seen.output;
  std::set<std::string> out;
  for (const auto& word : split(seen.output, '\n'))
    if (!word.empty()) out.insert(word);
  return out;
}

// An interactive zsh loads the script as a user's does, and Tab is pressed twice; status 0 if it lists `expected`.
test::Outcome press_tab_in_zsh(const std::string& script, const std::string& typed, const std::string& expected) {
  const auto folder = std::filesystem::path(script).parent_path();
  std::filesystem::copy_file(script, folder / "_shade", std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder / "ask.zsh") << R"(zmodload zsh/zpty
zpty shell TERM=dumb zsh -f -i
zpty -w shell "fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -d $1/dump; echo REA''DY"
zpty -r shell said '*READY*' || exit 1
zpty -w -n shell "$2"$'\t\t'
zpty -r shell said "$3" || exit 1
)";
  return test::run({"timeout", "120", "zsh", "-f", (folder / "ask.zsh").string(), folder.string(), typed, expected});
}

using Words = std::set<std::string>;

TEST(Completion, BashOffersVerbsOptionsAndValues) {
  const io::Scratch scratch;
  const auto script = script_of("bash", scratch.path());
  ASSERT_EQ(test::run({"bash", "-n", script}).status, 0);
  EXPECT_EQ(offered(script, {"shade", "co"}), (Words{"comm", "compare", "completion"}));
  EXPECT_EQ(offered(script, {"shade", "completion", ""}), (Words{"bash", "zsh", "fish"}));
  EXPECT_EQ(offered(script, {"shade", "train", "--shard", "z"}), (Words{"zero2", "zero3"}));
  EXPECT_EQ(offered(script, {"shade", "train", "--shard", "=", "z"}), (Words{"zero2", "zero3"})) << "--shard=z";
  EXPECT_EQ(offered(script, {"shade", "train", "--data-parallel", "z"}), (Words{"zero2", "zero3"})) << "an alias";
  EXPECT_EQ(offered(script, {"shade", "train", "--synthetic", "t"}), (Words{"true"}));
  EXPECT_EQ(offered(script, {"shade", "train", "--max-grad"}), (Words{"--max-grad-norm"}));
  EXPECT_EQ(offered(script, {"shade", "train", "--comm.peer"}), (Words{"--comm.peer-timeout"}));
  EXPECT_EQ(offered(script, {"shade", "train", "--json", ""}), Words{}) << "files are the shell's";
  EXPECT_TRUE(offered(script, {"shade", "compare", "--"}).contains("--seq-length")) << "bench's options are taken";
  EXPECT_TRUE(offered(script, {"shade", "launch", "--"}).contains("--max-restarts"));
  EXPECT_TRUE(offered(script, {"shade", "nonsense", "--"}).empty());
}

// What --help of a verb lists is offered, each option by its usual name.
TEST(Completion, EveryOptionOfHelpIsOffered) {
  const io::Scratch scratch;
  const auto script = script_of("bash", scratch.path());
  for (const std::string verb : {"account", "audit", "bench", "comm", "data", "doctor", "eval", "generate", "launch",
                                 "ledger", "release", "report", "scan", "train", "verify"}) {
    const auto options = offered(script, {"shade", verb, "-"});
    EXPECT_TRUE(options.contains("--help")) << verb;
    std::istringstream help(test::run({test::shade_binary(), verb, "--help"}).output);
    size_t listed = 0;
    for (std::string line; std::getline(help, line) && line != "Aliases:";) {
      if (!line.starts_with("  --")) continue;
      ++listed;
      const auto name = line.substr(2, line.find_first_of(", {", 2) - 2);
      EXPECT_TRUE(options.contains(name)) << verb << " " << name;
    }
    EXPECT_GT(listed, 2u) << verb;
  }
}

// What --help lists is in --describe-options, which is JSON.
TEST(DescribeOptions, HasEveryOptionOfEveryVerb) {
  for (const std::string verb :
       {"account", "audit", "bench", "calibrate", "comm", "compare", "data", "doctor", "eval", "generate", "launch",
        "ledger", "plan", "release", "report", "scan", "train", "verify"}) {
    SCOPED_TRACE(verb);
    const auto seen = test::run({test::shade_binary(), verb, "--describe-options"});
    ASSERT_EQ(seen.status, 0) << seen.output;
    const auto description = parse_json(seen.output);
    std::set<std::string> names;
    for (const auto& option : description.at("options")) {
      const auto name = option.at("name").get<std::string>();
      for (const auto* key : {"aliases", "default", "choices", "range", "section", "argument", "only_with", "help"})
        EXPECT_TRUE(option.contains(key)) << name << " " << key;
      EXPECT_NE(option.at("type"), "") << name;
      EXPECT_NE(option.at("help"), "") << name;
      names.insert(name);
      for (const auto& alias : option.at("aliases")) names.insert(alias.get<std::string>());
    }
    for (const auto& [word, becomes] : description.at("translated").items())
      names.insert(word.substr(0, word.find(' ')));
    std::istringstream help(test::run({test::shade_binary(), verb, verb == "train" ? "--help-all" : "--help"}).output);
    for (std::string line; std::getline(help, line) && !line.starts_with("Example");) {
      if (!line.starts_with("  -")) continue;
      for (const auto& word : split(line.substr(0, line.find("  ", 2)), ','))
        if (const auto name = trim(std::string_view(word).substr(0, word.find_first_of(" {", 2)));
            name.starts_with("-"))
          EXPECT_TRUE(names.contains(std::string(name))) << name;
    }
  }
  const auto train = parse_json(test::run({test::shade_binary(), "train", "--describe-options"}).output);
  for (const auto& option : train.at("options")) {
    if (option.at("name") != "--momentum") continue;
    EXPECT_EQ(option.at("type"), "number");
    EXPECT_EQ(option.at("default"), "0.0");
    EXPECT_EQ(option.at("range"), Json({{"min", 0.0}, {"max", 1.0}}));
    EXPECT_EQ(option.at("section"), "optim");
    EXPECT_EQ(option.at("only_with"), "--optimizer sgd");
  }
}

TEST(Completion, OtherShellsReadTheirs) {
  const io::Scratch scratch;
  const auto zsh = script_of("zsh", scratch.path()), fish = script_of("fish", scratch.path());
  const auto content = [](const std::string& file) {
    std::ostringstream out;
    out << std::ifstream(file).rdbuf();
    return out.str();
  };
  EXPECT_TRUE(content(zsh).starts_with("#compdef shade\n"));
  EXPECT_NE(content(fish).find("__fish_seen_subcommand_from train' -l shard -x -a 'none"), std::string::npos);
  if (there("zsh")) {
    const auto seen = press_tab_in_zsh(zsh, "shade train --shard z", "*zero2*zero3*");
    EXPECT_EQ(seen.status, 0) << seen.output;
  }
  if (there("fish")) {
    const auto seen = test::run({"fish", "-c", text("source ", fish, "; complete -C 'shade train --shard z'")});
    EXPECT_TRUE(seen.output.starts_with("zero2\t")) << seen.output;
    EXPECT_NE(seen.output.find("\nzero3\t"), std::string::npos) << seen.output;
  }
  const auto wrong = test::run({test::shade_binary(), "completion", "tcsh"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.output.find("expected the name of a shell: bash, zsh, fish"), std::string::npos) << wrong.output;
}

TEST(ManPages, AreReadWithoutWarningsAndHoldEveryOption) {
  const io::Scratch scratch;
  const auto made = test::run({test::shade_binary(), "man-pages", scratch.path().string()});
  ASSERT_EQ(made.status, 0) << made.output;
  size_t pages = 0;
  for (const auto& page : std::filesystem::directory_iterator(scratch.path())) {
    ++pages;
    if (there("groff")) {
      const auto seen = test::run({"groff", "-man", "-ww", "-Tutf8", "-z", page.path().string()});
      EXPECT_EQ(seen.status, 0) << page;
      EXPECT_EQ(seen.output, "") << page;
    }
    if (there("mandoc")) {
      const auto seen = test::run({"mandoc", "-T", "lint", "-W", "warning", page.path().string()});
      EXPECT_EQ(seen.output, "") << page;
    }
  }
  EXPECT_GE(pages, 16u);
  std::ostringstream train;
  train << std::ifstream(scratch.path() / "shade-train.1").rdbuf();
  for (const char* words : {".TH \"SHADE\\-TRAIN\" \"1\"", "\\fB\\-\\-max\\-grad\\-norm\\fR", ".SS Section dp of the",
                            "[\\fIRECIPE\\fR]", ".SH EXAMPLES"})
    EXPECT_NE(train.str().find(words), std::string::npos) << words;
}

}  // namespace
}  // namespace shade::cli
