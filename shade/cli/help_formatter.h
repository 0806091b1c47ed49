// How --help looks: descriptions wrapped to the terminal, and on request only the usual name of each option.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace shade::cli {

inline constexpr size_t kHelpColumn = 36;  // descriptions begin here

// Breaks words into lines of at most `width` characters; 0: no limit. A longer word gets its own line.
std::string wrapped(const std::string& words, size_t width);

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(bool usual_names_only = false) : usual_names_only_(usual_names_only) {
    column_width(kHelpColumn);
  }

  std::string make_option_name(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_desc(const CLI::Option* option) const override;

 private:
  bool usual_names_only_;
};

void use_help(CLI::App& app);  // this formatter, and -h, --help
void add_log_level(CLI::App& app, std::string& level);

}  // namespace shade::cli
