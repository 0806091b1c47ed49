#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

#include "shade/base/config.h"
#include "shade/base/files.h"
#include "shade/base/log.h"
#include "shade/base/program_path.h"
#include "shade/base/strings.h"
#include "shade/cli/describe.h"
#include "shade/cli/help_formatter.h"
#include "shade/cli/verb.h"
#include "shade/data/text_files.h"

namespace shade::cli {

CommandLine::CommandLine(std::string verb, std::string summary, std::string example)
    : verb_(std::move(verb)), example_(std::move(example)), app_(std::move(summary), "shade " + verb_) {
  use_help(app_);
  app_.allow_extras();  // ours name the nearest option
  app_.add_option(
          "--json", json_file,
          "file that the result is also written to as JSON; -: standard output, with everything else on standard error")
      ->type_name("FILE");
  app_.add_option("--ranks,--nproc-per-node", ranks,
                  "number of ranks to start on this host; if not given, the ranks that torchrun, Slurm or mpirun "
                  "started, or one process")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  add_log_level(app_, log_level_);
}

// Its conditions stand before the default, with which every help ends.
static std::string full_help(const Field& field, const Config& config) {
  auto out = field.help();
  if (const auto needs = conditions_text(field, config); !needs.empty())
    out.insert(out.rfind(" ["), text(" (only with ", needs, ")"));
  return out;
}

void CommandLine::add(Config& config, const std::string& argument) {
  config_ = &config;
  app_.add_option(argument.empty() ? "--config" : argument, config_file_,
                  "TOML file with these fields by section; options override it")
      ->type_name("FILE");
  for (auto& field : config.fields()) {
    // The word is kept and applied in parse(), after the file, so that options win.
    auto* option = app_.add_option(join(field.spellings(), ","), words_[field.key()], full_help(field, config));
    option->type_name(field.is_switch() ? "[true|false]" : "VALUE");
    option->group(field.key().substr(0, field.key().find('.')));
    option->expected(field.is_switch() ? 0 : 1, 1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

bool CommandLine::given(const std::string& key) const { return app_.get_option(dashed("--" + key))->count() > 0; }

void CommandLine::shorten_help(std::vector<CLI::Option*> uncommon) {
  uncommon_ = std::move(uncommon);
  app_.set_help_all_flag("--help-all", "print all options by section and exit");
  shortened_ = true;
}

void CommandLine::hide_uncommon() {
  app_.formatter(std::make_shared<HelpFormatter>(true));
  app_.footer(text(examples(), "\n\nThese are the most common options. shade ", verb_,
                   " --help-all lists all of them by section, with aliases."));
  for (auto* option : uncommon_) option->group("");
  for (const auto& field : config_->fields())
    if (!field.info().common) app_.get_option(dashed("--" + field.key()))->group("");
}

std::string CommandLine::examples() const {
  return text(example_.find('\n') == std::string::npos ? "Example:\n  " : "Examples:\n  ", example_);
}

std::string CommandLine::config_name() const {
  return config_file_.empty() ? verb_ : std::filesystem::path(config_file_).stem().string();
}

std::optional<int> parse_words(CLI::App& app, const Arguments& arguments, const std::function<void()>& short_help) {
  Arguments reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them as a stack
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    if (short_help) short_help();
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& fault) {
    throw UsageError(fault.what());
  }
  return std::nullopt;
}

OwnOptions CommandLine::own_options() const {
  return {.verb = verb_,
          .find = [this](const std::string& word) -> const void* { return app_.get_option_no_throw(word); }};
}

Arguments CommandLine::in_own_words(const Arguments& arguments) const {
  return cli::in_own_words(arguments, own_options());
}

std::string CommandLine::aliases(const CLI::App* outer) const {
  const auto own = own_options();
  const auto words = foreign_words_help({.verb = own.verb, .find = [&](const std::string& word) {
                                           const void* found =
                                               outer == nullptr ? nullptr : outer->get_option_no_throw(word);
                                           return found != nullptr ? found : own.find(word);
                                         }});
  return words.empty() ? words : words + "\n";
}

const Field* CommandLine::field_of(const std::string& option) const { return field_named(config_, option); }

// A switch takes the next word as its value only if it is one: in `--synthetic RECIPE` the recipe is the argument.
// Nothing takes it after `--option=`, which is an empty text or an empty list.
Arguments CommandLine::with_values(const Arguments& arguments) const {
  Arguments out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& word = arguments[i];
    const bool empty = word.starts_with("--") && word.find('=') == word.size() - 1;
    const auto option = empty ? word.substr(0, word.size() - 1) : word;
    const auto* field = field_of(option);
    SHADE_REQUIRE(!empty || (field != nullptr && field->may_be_empty()), "'", word,
                  "' has no value; expected one after the equals sign");
    const bool last = i + 1 == arguments.size() || arguments[i + 1].starts_with("--");
    if (field != nullptr && !field->is_switch() && !empty && last) {
      const auto choices = choices_of(*field);
      throw UsageError(text(word, " has no value; expected ",
                            choices.empty() ? text(word, " VALUE") : text("one of ", join(choices, ", "))));
    }
    const bool alone =
        field != nullptr && field->is_switch() && (i + 1 == arguments.size() || !parse_switch(arguments[i + 1]));
    out.push_back(alone ? option + "=true" : option);
    if (empty) out.emplace_back();
  }
  return out;
}

// The same spelling twice is a script's way to override; two of them read like two quantities.
void CommandLine::require_one_spelling(const Arguments& arguments) const {
  std::map<const Field*, Given> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto given = given_at(arguments, i);
    const auto* field = field_of(given.option);
    if (field == nullptr) continue;
    const auto [before, first] = seen.try_emplace(field, given);
    auto& earlier = before->second;
    SHADE_REQUIRE(first || earlier.option == given.option || earlier.value == given.value, earlier.option, " ",
                  earlier.value.value_or(""), " and ", given.option, " ", given.value.value_or(""),
                  " are two names of one option; drop one of them");
    earlier = given;
  }
}

Description CommandLine::description() const {
  auto out = describe(app_, config_, example_);
  out.aliases = foreign_words(own_options());
  return out;
}

std::optional<int> CommandLine::parse(const Arguments& arguments) {
  app_.footer(text(aliases(), examples()));
  const auto words = with_values(in_own_words(arguments));
  const auto short_help = shortened_ ? [this] { hide_uncommon(); } : std::function<void()>();
  if (const auto status = parse_words(app_, words, short_help)) return status;
  require_one_spelling(words);
  for (const auto& word : app_.remaining()) {
    if (word.starts_with("-")) throw UsageError(text("unknown option '", word, "'", suggestion_for(word)));
    throw UsageError(text("unexpected argument '", word, "'", argument_hint(word)));
  }
  log::set_level(log::parse_level(log_level_));
  if (config_ != nullptr) {
    if (!config_file_.empty()) {
      require_recipe(config_file_);
      config_->read_toml(config_file_);
    }
    for (auto& field : config_->fields()) {
      if (!given(field.key())) continue;
      const auto& word = words_[field.key()];
      field.set(field.is_switch() && word.empty() ? "true" : word);
    }
  }
  json_file = json_target(json_file, starts_ranks(ranks));
  return std::nullopt;
}

void CommandLine::require_recipe(const std::string& file) const {
  const std::filesystem::path path(file);
  const auto option = file.substr(0, file.find('='));
  SHADE_REQUIRE(std::filesystem::exists(path) || option == file || field_of(dashed("--" + option)) == nullptr, "'",
                file, "' is not a file; an option begins with two dashes: --", file);
  SHADE_REQUIRE(std::filesystem::exists(path), "cannot read the configuration ", path,
                ": no such file; expected a TOML file", nearby(path));
  if (std::filesystem::is_directory(path) && config_->has("model.model")) {
    SHADE_REQUIRE(!std::filesystem::exists(path / "recipe.toml"), path, " is a folder; the recipe of that run is ",
                  path / "recipe.toml");
    SHADE_REQUIRE(!std::filesystem::exists(path / "config.json"), path,
                  " is a folder, and a TOML file is expected here; ", "a model is named by an option: --model ", file);
  }
  const bool data = app_.get_option_no_throw("--data-folder") != nullptr && path.extension() != ".toml" &&
                    (std::filesystem::is_directory(path) || data::is_text_file(path));
  SHADE_REQUIRE(!data, path, std::filesystem::is_directory(path) ? " is a folder" : " is a file of data",
                ", and a TOML file is expected here; data are named by an option: --data-folder ", file);
}

// Another field of the section may have decided the field's value: --target-epsilon makes a run private.
bool CommandLine::changes_section(const std::string& key) const {
  const auto section = key.substr(0, key.find('.') + 1);
  return std::any_of(config_->fields().begin(), config_->fields().end(),
                     [&](const Field& field) { return field.key().starts_with(section) && given(field.key()); });
}

std::vector<NoEffect> CommandLine::without_effect(const Facts& facts) const {
  std::vector<NoEffect> out;
  if (config_ == nullptr) return out;
  // The recipe.toml of a run states every field, used or not, but a few that follow from others (train::print_toml).
  constexpr int kLeftOut = 8;
  const bool written = std::count_if(config_->fields().begin(), config_->fields().end(),
                                     [](const Field& field) { return !field.given(); }) <= kLeftOut;
  for (const auto& field : config_->fields()) {
    if (!field.given() || field.restated()) continue;
    const auto fault = unmet(field, *config_, facts);
    if (!fault) continue;
    const auto option = field.spellings().front();
    const bool on_line = given(field.key());
    const bool of_file = !config_->reads_other_files() && !written && !fault->decided_by.empty() &&
                         std::none_of(fault->decided_by.begin(), fault->decided_by.end(),
                                      [&](const std::string& key) { return changes_section(key); });
    if (!on_line && !of_file) continue;
    const auto name = on_line ? option : text(config_file_, ": ", field.key());
    out.push_back({option, text(name, " has no effect ", fault->why, "; drop it, or give it what it needs")});
  }
  return out;
}

void CommandLine::require_effects(const Facts& facts) const {
  if (const auto unused = without_effect(facts); !unused.empty()) throw UsageError(unused.front().message);
}

std::string json_target(const std::string& given, bool launcher) {
  const bool standard = given == "-" || given == "/dev/stdout";
  if (!given.empty() && !standard) check_output(given);
  if (!standard || launcher) return given;
  const int kept = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (kept < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    throw Error(text("cannot write JSON to standard output: ", std::strerror(errno)));
  return text("/dev/fd/", kept);
}

std::string CommandLine::argument_hint(const std::string& word) const {
  if (app_.get_option_no_throw("--prompt") != nullptr) return text("; a prompt is an option: --prompt '", word, "'");
  const std::filesystem::path path(word);
  const auto* const option = std::filesystem::exists(path / "config.json") ? "--model" : "--data-folder";
  if (std::filesystem::exists(path) && app_.get_option_no_throw(option) != nullptr)
    return text("; expected an option: ", option, " ", word);
  const auto equals = word.find('=');
  const auto* field = equals == std::string::npos ? nullptr : field_of(dashed("--" + word.substr(0, equals)));
  if (field != nullptr) return text("; an option begins with two dashes: --", word);
  return "; expected options, which begin with two dashes; a value with blanks needs quotes";
}

std::string CommandLine::suggestion_for(const std::string& word) const {
  std::vector<std::string> names;
  for (const auto* option : app_.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return suggestion(word.substr(0, word.find('=')), names);
}

}  // namespace shade::cli
