#include "shade/base/field_choices.h"

#include "shade/base/strings.h"

namespace shade {

// Of an enum alone a colon follows the declared words in Field::help(), then "a|b|c", a range and the default.
std::vector<std::string> choices_of(const Field& field) {
  if (field.is_switch()) return {"true", "false"};
  const auto help = field.help();
  const auto declared = field.info().help + ": ";
  if (!help.starts_with(declared)) return {};
  return split(help.substr(declared.size(), help.find(' ', declared.size()) - declared.size()), '|');
}

}  // namespace shade
