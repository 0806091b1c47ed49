// shade completion: the verbs, options and values of every verb, for bash, zsh and fish.
//
// An option is offered by its usual name, and by its full one (--section.key) once a dot was typed: all aliases
// together would be three times as long a list.
#include <algorithm>
#include <cstdio>

#include "shade/cli/describe.h"

namespace shade::cli {
namespace {

constexpr const char* kShells[] = {"bash", "zsh", "fish"};

bool is_file(const OptionWords& option) {
  return option.value == "FILE" || option.value == "FOLDER" ||
         (option.value == "VALUE" && option.choices.empty() && !option.is_switch);
}

std::vector<std::string> offered(const OptionWords& option) {
  std::vector<std::string> out{option.names.front()};
  for (const auto& name : option.names)
    if (name.find('.') != std::string::npos && name != out.front()) out.push_back(name);
  return out;
}

// The first sentence of the help, short enough for a column.
std::string brief(const std::string& help) {
  auto out = help.substr(0, help.find_first_of("\n;"));
  constexpr size_t kLongest = 70;
  if (out.size() > kLongest) out = out.substr(0, out.rfind(' ', kLongest)) + " ...";
  return out;
}

std::string quoted(const std::string& words) {  // for any of the shells
  std::string out = "'";
  for (const char c : words) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string verb_names(const std::vector<VerbWords>& verbs) {
  std::vector<std::string> names;
  for (const auto& verb : verbs) names.push_back(verb.name);
  names.emplace_back("completion");
  return join(names, " ");
}

// In zsh's _arguments brackets and colons have a meaning.
std::string for_zsh(const std::string& words) {
  std::string out;
  for (const char c : words) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// fish knows a backslash in single quotes only before a quote or another one.
std::string for_fish(const std::string& words) {
  std::string out = "'";
  for (const char c : words) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

}  // namespace

std::string bash_completion(const std::vector<VerbWords>& verbs) {
  std::string out = text(
      "# bash completion of shade; made by: shade completion bash\n"
      "_shade() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= full= values=\n"
      "  COMPREPLY=()\n"
      "  if (( COMP_CWORD == 1 )); then\n"
      "    COMPREPLY=($(compgen -W '",
      verb_names(verbs),
      " --help --version' -- \"$word\"))\n    return\n  fi\n"
      "  # bash splits --option=value at the equals sign.\n"
      "  if [[ $word == = ]]; then word= before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
      "  case ${COMP_WORDS[1]} in\n"
      "    completion) options='bash zsh fish' values=$options ;;\n");
  for (const auto& verb : verbs) {
    std::vector<std::string> usual, full;
    std::string cases;
    for (const auto& option : verb.description.options) {
      if (option.is_argument) continue;
      usual.push_back(option.names.front());
      for (const auto& name : offered(option))
        if (name.find('.') != std::string::npos) full.push_back(name);
      const auto pattern = join(option.names, "|");
      if (!option.choices.empty())
        cases += text("        ", pattern, ") values=", quoted(join(option.choices, " ")), " ;;\n");
      else if (!option.value.empty())
        cases += text("        ", pattern, ") return ;;\n");
    }
    out += text("    ", verb.name, ")\n      options=", quoted(join(usual, " ")),
                "\n      full=", quoted(join(full, " ")), "\n      case $before in\n", cases, "      esac ;;\n");
  }
  return out + text(
                   "  esac\n"
                   "  if [[ $word == -* ]]; then\n"
                   "    [[ $word == *.* ]] && options=$full\n"
                   "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                   "  elif [[ -n $values ]]; then\n"
                   "    COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
                   "  fi\n"
                   "}\n"
                   "# Where nothing is offered the shell completes file names.\n"
                   "complete -o default -F _shade shade\n");
}

std::string zsh_completion(const std::vector<VerbWords>& verbs) {
  std::string out =
      "#compdef shade\n# zsh completion of shade; made by: shade completion zsh\n_shade() {\n"
      "  local -a verbs\n  verbs=(\n";
  for (const auto& verb : verbs) out += text("    ", quoted(for_zsh(verb.name) + ":" + for_zsh(verb.summary)), "\n");
  out +=
      "    'completion:completion of verbs, options and values for a shell'\n  )\n"
      "  if (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\n  fi\n"
      "  local verb=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $verb in\n"
      "    completion) _arguments '1:shell:(bash zsh fish)' ;;\n";
  for (const auto& verb : verbs) {
    out += text("    ", verb.name, ")\n      _arguments");
    for (const auto& option : verb.description.options) {
      if (option.is_argument) continue;
      for (const auto& name : offered(option)) {
        auto words = text(name, "[", for_zsh(brief(option.help)), "]");
        if (!option.choices.empty())
          words += text(option.is_switch ? "::" : ":", "value:(", join(option.choices, " "), ")");
        else if (!option.value.empty())
          words += text(":", for_zsh(option.value), ":", is_file(option) ? "_files" : " ");
        out += text(" \\\n        ", quoted(words));
      }
    }
    out += " \\\n        '*:file:_files' ;;\n";
  }
  return out + "  esac\n}\nif [ \"$funcstack[1]\" = _shade ]; then _shade \"$@\"; else compdef _shade shade; fi\n";
}

std::string fish_completion(const std::vector<VerbWords>& verbs) {
  std::string out = "# fish completion of shade; made by: shade completion fish\n";
  const auto verb_line = [&](const std::string& name, const std::string& summary) {
    out += text("complete -c shade -n __fish_use_subcommand -f -a ", name, " -d ", for_fish(summary), "\n");
  };
  for (const auto& verb : verbs) verb_line(verb.name, verb.summary);
  verb_line("completion", "completion of verbs, options and values for a shell");
  out += "complete -c shade -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n";
  for (const auto& verb : verbs)
    for (const auto& option : verb.description.options) {
      if (option.is_argument) continue;
      for (const auto& name : offered(option)) {
        const bool is_long = name.starts_with("--");
        out += text("complete -c shade -n '__fish_seen_subcommand_from ", verb.name, "'", is_long ? " -l " : " -s ",
                    name.substr(is_long ? 2 : 1));
        if (!option.choices.empty())
          out += text(option.is_switch ? " -f -a " : " -x -a ", for_fish(join(option.choices, " ")));
        else if (!option.value.empty())
          out += is_file(option) ? " -r" : " -x";
        out += text(" -d ", for_fish(brief(option.help)), "\n");
      }
    }
  return out;
}

int run_completion(std::span<const Verb> verbs, const Arguments& arguments) {
  const bool help = arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h");
  if (help) {
    std::printf(
        "Prints completion of verbs, options and values for a shell.\n\nusage: shade completion bash|zsh|fish\n\n"
        "Example:\n  shade completion bash > ~/.local/share/bash-completion/completions/shade\n"
        "  shade completion zsh > ~/.zfunc/_shade         with ~/.zfunc in fpath before compinit\n"
        "  shade completion fish > ~/.config/fish/completions/shade.fish\n");
    return 0;
  }
  const std::string shell = arguments.size() == 1 ? arguments[0] : "";
  const std::vector<std::string> shells(std::begin(kShells), std::end(kShells));
  SHADE_REQUIRE(std::find(shells.begin(), shells.end(), shell) != shells.end(),
                "expected the name of a shell: ", join(shells, ", "), "; e.g. shade completion bash");
  const auto all = describe_all(verbs);
  const auto script = shell == "bash"  ? bash_completion(all)
                      : shell == "zsh" ? zsh_completion(all)
                                       : fish_completion(all);
  std::fwrite(script.data(), 1, script.size(), stdout);
  return 0;
}

}  // namespace shade::cli
