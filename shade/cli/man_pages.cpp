// shade man-pages: shade.1 and a page for each verb, in the man macros of groff and mandoc.
#include <cstdio>
#include <filesystem>

#include "shade/base/files.h"
#include "shade/cli/describe.h"
#include "shade/cli/version.h"

namespace shade::cli {
namespace {

// Text as it is to be read: no escapes, no requests at the beginning of a line, hyphens that can be pasted.
std::string plain(const std::string& words) {
  std::string out;
  bool at_begin = true;
  for (const char c : words) {
    if (at_begin && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    if (c == '|' || c == ',') out += "\\:";  // a list of values may be broken here
    at_begin = c == '\n';
  }
  return out;
}

std::string bold(const std::string& words) { return text("\\fB", plain(words), "\\fR"); }

// The date is the commit's: a page made again from the same sources is the same.
std::string head(const std::string& name) {
  std::string title;
  for (const char c : name) title += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text(".TH \"", plain(title), "\" \"1\" \"", date(), "\" \"shade ", version(),
              "\" \"User commands\"\n.nh\n.ad l\n");
}

// For --help its lines after the first are indented like the first.
std::string example_of(const std::string& example) {
  std::string lines;
  for (const auto& line : split(example, '\n')) lines += text(plain(std::string(trim(line))), "\n");
  return text(".SH EXAMPLES\n.nf\n", lines, ".fi\n");
}

std::string entry(const OptionWords& option) {
  std::vector<std::string> names;
  for (const auto& name : option.names) names.push_back(bold(name));
  const auto value = option.value.empty() ? "" : text(" \\fI", plain(option.value), "\\fR");
  return text(".TP\n", join(names, ", "), value, "\n", plain(option.help), "\n");
}

constexpr const char* kStatus =
    ".SH EXIT STATUS\n.TP\n0\nsuccess\n.TP\n1\nan error: a file, another process, the machine\n"
    ".TP\n2\na wrong option, key or file, which the message names\n.TP\n75\nanother rank was lost\n";

}  // namespace

std::string man_page(const std::vector<VerbWords>& verbs) {
  std::string out = text(head("shade"),
                         ".SH NAME\nshade \\- train models sharded over many ranks, with differential privacy\n"
                         ".SH SYNOPSIS\n.B shade\n.I verb\n[\\fIoptions\\fR]\n.SH DESCRIPTION\n"
                         "Shade trains large models sharded over many ranks, with or without differential privacy, and "
                         "verifies that the private gradient is right.\nEvery verb has its own page, e.g. "
                         "\\fBman shade\\-train\\fR, and \\fBshade\\fR \\fIverb\\fR \\fB\\-\\-help\\fR.\n.SH VERBS\n");
  for (const auto& verb : verbs) out += text(".TP\n", bold(verb.name), "\n", plain(verb.summary), "\n");
  out += text(".TP\n\\fBcompletion\\fR bash|zsh|fish\ncompletion of verbs, options and values for a shell\n", kStatus,
              ".SH SEE ALSO\n");
  for (size_t i = 0; i < verbs.size(); ++i)
    out += text(".BR shade\\-", plain(verbs[i].name), " (1)", i + 1 < verbs.size() ? "," : "", "\n");
  return out;
}

std::string man_page(const VerbWords& verb) {
  const auto name = "shade-" + verb.name;
  const auto& [summary, example, options, aliases] = verb.description;
  std::string out = text(head(name), ".SH NAME\n", plain(name), " \\- ", plain(verb.summary),
                         "\n.SH SYNOPSIS\n.B shade ", plain(verb.name), "\n[\\fIoptions\\fR]");
  for (const auto& option : options)
    if (option.is_argument) out += text(" [\\fI", plain(option.names.front()), "\\fR]");
  out += text("\n.SH DESCRIPTION\n", plain(summary), "\n.SH OPTIONS\n");
  for (const auto& option : options)
    if (option.section.empty()) out += entry(option);
  std::string section;
  for (const auto& option : options) {
    if (option.section.empty()) continue;
    if (option.section != section) out += text(".SS Section ", plain(option.section), " of the configuration\n");
    section = option.section;
    out += entry(option);
  }
  return out + example_of(example) + kStatus + ".SH SEE ALSO\n.BR shade (1)\n";
}

int run_man_pages(std::span<const Verb> verbs, const Arguments& arguments) {
  SHADE_REQUIRE(arguments.size() == 1 && !arguments[0].starts_with("-"),
                "expected the folder for the pages, e.g. shade man-pages share/man/man1");
  const std::filesystem::path folder = arguments[0];
  std::filesystem::create_directories(folder);
  const auto all = describe_all(verbs);
  write_output(folder / "shade.1", man_page(all));
  for (const auto& verb : all) write_output(folder / ("shade-" + verb.name + ".1"), man_page(verb));
  return 0;
}

}  // namespace shade::cli
