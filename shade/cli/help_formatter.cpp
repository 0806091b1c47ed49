#include "shade/cli/help_formatter.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "shade/base/strings.h"
#include "shade/base/terminal.h"

namespace shade::cli {
namespace {

constexpr size_t kWidest = 120, kNarrowest = 30;  // of a column of descriptions that is pleasant to read

// Files and pipes get one line per description, for grep.
size_t description_width() {
  winsize size{};
  if (!is_terminal(stdout) || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  const size_t columns = size.ws_col;
  return std::clamp(columns > kHelpColumn ? columns - kHelpColumn : 0, kNarrowest, kWidest);
}

}  // namespace

std::string wrapped(const std::string& words, size_t width) {
  if (width == 0) return words;
  std::string out;
  size_t used = 0;
  for (const auto& word : split(words, ' ')) {
    if (used > 0) {
      const bool fits = used + 1 + word.size() <= width;
      out += fits ? ' ' : '\n';
      used = fits ? used + 1 : 0;
    }
    out += word;
    used += word.size();
  }
  return out;
}

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool is_positional) const {
  if (usual_names_only_ && !is_positional && option->get_snames().empty() && !option->get_lnames().empty())
    return "--" + option->get_lnames().front();
  return CLI::Formatter::make_option_name(option, is_positional);
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return wrapped(CLI::Formatter::make_option_desc(option), description_width());
}

void use_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "print this help and exit");
}

void add_log_level(CLI::App& app, std::string& level) {
  app.add_option("--log-level", level, "least severe message to print: debug, info, warning, error or off [warning]")
      ->type_name("LEVEL");
}

}  // namespace shade::cli
