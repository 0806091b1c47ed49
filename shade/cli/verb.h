// A verb of the program: one file each, listed once in main.cpp.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shade/base/config.h"
#include "shade/base/effect.h"
#include "shade/base/json.h"
#include "shade/cli/foreign_words.h"
#include "shade/comm/job/launch.h"
#include "shade/comm/world.h"

namespace shade::cli {

using Arguments = std::vector<std::string>;

// An option as data: what --help, --describe-options, completion and man pages say of it.
struct OptionWords {
  std::vector<std::string> names;  // with dashes, the usual one first; of an argument its name, e.g. "RECIPE"
  std::string value;               // what follows it: "FILE", "N"; empty: nothing
  std::string help;
  std::string section;               // of the configuration; empty: an option of the verb itself
  std::vector<std::string> choices;  // empty: any value
  bool is_argument = false;
  bool is_switch = false;          // its value may be left out
  std::string type;                // Field::type(), or flag: it takes no value
  std::string standard;            // what holds if it is not given
  std::optional<double> min, max;  // of a number
  std::string needs;               // what gives it an effect (base/effect.h); empty: nothing else

  Json json() const;
};

struct Description {
  std::string summary, example;
  std::vector<OptionWords> options;
  std::vector<std::pair<std::string, std::string>> aliases;  // words of other programs, and what they become

  Json json() const;
};

// A verb whose options were declared by its constructor, so that they can be described without running it.
class Invocation {
 public:
  virtual ~Invocation() = default;
  virtual Description description() const = 0;
  virtual int run(const Arguments& arguments) = 0;  // reads them, and returns the exit status
};

struct Verb {
  const char* name;
  const char* summary;
  std::unique_ptr<Invocation> (*declare)();
};

std::unique_ptr<Invocation> declare_account();
std::unique_ptr<Invocation> declare_audit();
std::unique_ptr<Invocation> declare_bench();
std::unique_ptr<Invocation> declare_calibrate();
std::unique_ptr<Invocation> declare_comm();
std::unique_ptr<Invocation> declare_compare();
std::unique_ptr<Invocation> declare_data();
std::unique_ptr<Invocation> declare_doctor();
std::unique_ptr<Invocation> declare_eval();
std::unique_ptr<Invocation> declare_generate();
std::unique_ptr<Invocation> declare_launch();
std::unique_ptr<Invocation> declare_ledger();
std::unique_ptr<Invocation> declare_plan();
std::unique_ptr<Invocation> declare_release();
std::unique_ptr<Invocation> declare_report();
std::unique_ptr<Invocation> declare_scan();
std::unique_ptr<Invocation> declare_train();
std::unique_ptr<Invocation> declare_verify();

// Empty: go on. Otherwise help was printed, and the status is this. Throws UsageError.
// Before --help is printed, `short_help` may hide options.
std::optional<int> parse_words(CLI::App& app, const Arguments& arguments, const std::function<void()>& short_help = {});

// An option that was given and that nothing in the run would use.
struct NoEffect {
  std::string option;   // its usual spelling
  std::string message;  // names it, what takes its effect away and what would give it one
};

// The command line of one verb: its own options, the fields of its configuration, and the options all verbs share.
class CommandLine {
 public:
  CommandLine(std::string verb, std::string summary, std::string example);

  CLI::App& app() { return app_; }
  // Every field becomes --section.key, and its short flags. A TOML file is read first: the one given by --config, or,
  // where the verb is about a file, by the argument of this name.
  void add(Config& config, const std::string& argument = "");

  // --help shows only the fields that are marked as common and no `uncommon` option, --help-all everything.
  void shorten_help(std::vector<CLI::Option*> uncommon = {});

  // Empty: go on. Otherwise the verb is over (help was printed) with this status. Throws UsageError.
  std::optional<int> parse(const Arguments& arguments);

  std::string json_file;                                     // --json, for write_json
  std::optional<int> ranks;                                  // --ranks
  bool given(const std::string& key) const;                  // on the command line, in whatever spelling
  Arguments in_own_words(const Arguments& arguments) const;  // cli/foreign_words.h
  // For --help, with an empty line after them, or nothing. Options of `outer`, which this line is the rest of, are
  // none.
  std::string aliases(const CLI::App* outer = nullptr) const;
  // Given options that have no effect (base/effect.h), and fields of the verb's own file that have none by the file
  // itself: options may take the effect of a field away, and a file says nothing of ranks. A value that restates the
  // default passes: it says what happens anyway. So does the recipe that a run wrote, which states every field.
  std::vector<NoEffect> without_effect(const Facts& facts) const;
  void require_effects(const Facts& facts = {}) const;  // throws UsageError; after the last change of a field
  bool has_file() const { return !config_file_.empty(); }
  Description description() const;
  std::string config_name() const;  // of the TOML file, without folder and ending; the verb if none was given

 private:
  OwnOptions own_options() const;
  std::string suggestion_for(const std::string& word) const;
  std::string argument_hint(const std::string& word) const;
  void require_recipe(const std::string& file) const;  // throws UsageError: missing, data, a value without its dashes
  bool changes_section(const std::string& key) const;  // an option of the key's section was given
  const Field* field_of(const std::string& option) const;  // null: none is spelled so
  Arguments with_values(const Arguments& arguments) const;
  void require_one_spelling(const Arguments& arguments) const;
  void hide_uncommon();
  std::string examples() const;

  std::string verb_, example_;
  CLI::App app_;
  bool shortened_ = false;
  std::vector<CLI::Option*> uncommon_;
  Config* config_ = nullptr;
  std::map<std::string, std::string> words_;  // what was given for a field, by key
  std::string config_file_;
  std::string log_level_ = "warning";
};

// A verb with one command line.
class LineVerb : public Invocation {
 public:
  LineVerb(std::string verb, std::string summary, std::string example)
      : line(std::move(verb), std::move(summary), std::move(example)) {}
  Description description() const override { return line.description(); }

  CommandLine line;
};

// What was given by --json, as write_json takes it. Throws UsageError if it can't be written. For "-" and /dev/stdout
// only the JSON goes to standard output from here on: what else this process prints goes to standard error. A launcher,
// which doesn't write it, leaves standard output to its ranks.
std::string json_target(const std::string& given, bool launcher = false);

// The place that the environment states for this process; without one, that of rank 0 of --ranks on this host.
comm::Place expected_place(const CommandLine& line);

// What options that need several ranks are judged by. A launcher may start one rank with words for many: there they
// pass.
Fact ranks_fact(const comm::Place& place);

// --ranks N was given outside of a world: this process will start the ranks.
bool starts_ranks(const std::optional<int>& ranks);

// With --ranks N outside of a world: starts N ranks of this very command and returns their status. Otherwise empty.
std::optional<int> start_ranks(const CommandLine& line, const std::string& verb, const Arguments& arguments,
                               const comm::CommConfig& config);

// Compute threads of this process; 0: libtorch's choice, or of several ranks one; if they compute on another device,
// its share of the cores, which draw the noise there. Rank 0 warns if the ranks of its host have more of them together
// than there are cores. The library itself leaves the number as it is.
void use_threads(int64_t wanted, const comm::Place& place, c10::Device device = c10::kCPU);

inline constexpr int kUsageStatus = 2;

// Thrown instead of an error that the launcher prints: this process only ends, with this status.
struct Told {
  int status;
};

// A usage error that was found in a world, perhaps by this rank alone. One from before, such as an unknown option, is
// found by all ranks of a host.
struct RankUsageError : UsageError {
  using UsageError::UsageError;
};

// Joins the world, runs the body, leaves; if the body throws, the other ranks are told why. A usage error becomes a
// RankUsageError, and is printed once for all ranks of start_ranks().
void in_world(std::optional<int> stated_ranks, const comm::CommConfig& config,
              const std::function<void(comm::World&)>& body);

// Ranks of this configuration compute on GPUs, which have memory of their own.
bool on_gpus(const comm::CommConfig& config);

// Rank 0 prints on which device it computes, and which GPUs of its host are not used.
void say_device(const comm::World& world);

// Prints who failed first and where the others were; returns the exit status.
int report(const comm::LaunchResult& result);

}  // namespace shade::cli
