#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "shade/base/log.h"
#include "shade/base/output_file.h"
#include "shade/base/strings.h"
#include "shade/catalog/methods.h"
#include "shade/cli/verb.h"

namespace shade::cli {

CommandLine::CommandLine(std::string verb, std::string summary, std::string example)
    : verb_(std::move(verb)), app_(std::move(summary), "shade " + verb_) {
  app_.footer("Example:\n  " + std::move(example));
  app_.get_formatter()->column_width(36);
  app_.allow_extras();  // ours name the nearest option
  app_.add_option("--json", json_file,
                  "also write the result as JSON to this file; -: to standard output, and all else to standard error")
      ->type_name("FILE");
  app_.add_option("--ranks,--nproc-per-node", ranks,
                  "start this many ranks on this host; absent: the world given by torchrun, Slurm or "
                  "mpirun, or one process")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  app_.add_option("--log-level", log_level_, "debug, info, warning, error or off [warning]")->type_name("LEVEL");
}

void CommandLine::add(Config& config, const std::string& argument) {
  config_ = &config;
  app_.add_option(argument.empty() ? "--config" : argument, config_file_,
                  "read these fields from a TOML file; options override it")
      ->type_name("FILE");
  for (auto& field : config.fields()) {
    // The word is kept and applied in parse(), after the file, so that options win.
    auto* option = app_.add_option(join(field.spellings(), ","), words_[field.key()], field.help());
    option->type_name(field.is_switch() ? "[true|false]" : "VALUE");
    option->group(field.key().substr(0, field.key().find('.')));
    option->expected(field.is_switch() ? 0 : 1, 1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

bool CommandLine::given(const std::string& key) const { return app_.get_option(dashed("--" + key))->count() > 0; }

std::string CommandLine::config_name() const {
  return config_file_.empty() ? verb_ : std::filesystem::path(config_file_).stem().string();
}

bool implies_zero3(const Arguments& arguments) {
  bool fsdp = false, given = false;
  for (const auto& word : arguments) {
    for (const auto& method : catalog::kMethods) fsdp = fsdp || (!method.fsdp.empty() && word.ends_with(method.fsdp));
    given = given || word.starts_with("--shard") || word.starts_with("--data-parallel");
  }
  return fsdp && !given;
}

std::optional<int> parse_words(CLI::App& app, const Arguments& arguments) {
  Arguments reversed(arguments.rbegin(), arguments.rend());  // CLI11 takes them as a stack
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& fault) {
    throw UsageError(fault.what());
  }
  return std::nullopt;
}

// A switch takes the next word as its value only if it is one: in `--synthetic RECIPE` the recipe is the argument.
Arguments CommandLine::with_switch_values(Arguments arguments) const {
  if (config_ == nullptr) return arguments;
  for (size_t i = 0; i + 1 < arguments.size(); ++i)
    for (const auto& field : config_->fields()) {
      const auto names = field.spellings();
      const bool named = field.is_switch() && std::find(names.begin(), names.end(), arguments[i]) != names.end();
      if (named && !parse_switch(arguments[i + 1])) arguments[i] += "=true";
    }
  return arguments;
}

std::optional<int> CommandLine::parse(const Arguments& arguments) {
  if (const auto status = parse_words(app_, with_switch_values(arguments))) return status;
  for (const auto& word : app_.remaining()) {
    if (word.starts_with("-")) throw UsageError(text("unknown option '", word, "'", suggestion_for(word)));
    throw UsageError(text("unexpected argument '", word, "'"));
  }
  log::set_level(log::parse_level(log_level_));
  if (config_ != nullptr) {
    if (!config_file_.empty()) config_->read_toml(config_file_);
    for (auto& field : config_->fields()) {
      if (!given(field.key())) continue;
      const auto& word = words_[field.key()];
      field.set(field.is_switch() && word.empty() ? "true" : word);
    }
  }
  json_file = json_target(json_file, starts_ranks(ranks));
  return std::nullopt;
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

std::string CommandLine::suggestion_for(const std::string& word) const {
  std::vector<std::string> names;
  for (const auto* option : app_.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return suggestion(word.substr(0, word.find('=')), names);
}

}  // namespace shade::cli
