#include "shade/base/effect.h"

#include <algorithm>

#include "shade/base/json.h"
#include "shade/base/strings.h"

namespace shade {
namespace {

const Field* deciding_field(const Config& config, const std::string& key) {
  const auto& fields = config.fields();
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& one) { return one.key() == key; });
  return found == fields.end() ? nullptr : &*found;
}

bool has_one(const std::vector<std::string>& values, const std::string& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

bool is_on(const Field& field) {
  const auto value = json_values(field);
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() > 0;
  if (value.is_string()) return !value.get<std::string>().empty() && value != "none";
  return !value.empty();
}

bool on_by_default(const Field& field) { return !has_one({"", "0", "false", "none"}, field.standard()); }

// Enums have no empty value, so what they are is said too.
std::string needed(const Field& decides, const Condition& condition) {
  const auto option = decides.spellings().front();
  if (!condition.values.empty()) return text(option, " ", join(condition.values, " or "));
  return decides.type() == "choice" ? text(option, " other than none") : option;
}

}  // namespace

std::optional<Unmet> unmet(const Field& field, const Config& config, const Facts& facts) {
  for (const auto& condition : field.info().needs) {
    if (const auto fact = facts.find(condition.on); fact != facts.end()) {
      const auto& [value, decided_by] = fact->second;
      if (has_one(condition.values, value)) continue;
      return Unmet{decided_by, text("with ", value, ": it belongs to ", join(condition.values, " or "))};
    }
    const auto* decides = deciding_field(config, condition.on);
    if (decides == nullptr) continue;
    const bool holds = condition.values.empty() ? is_on(*decides) : has_one(condition.values, decides->str());
    if (holds) continue;
    const auto option = decides->spellings().front();
    const bool absent = condition.values.empty() && decides->type() != "choice";
    return Unmet{{decides->key()},
                 absent ? text("without ", option)
                        : text("with ", option, " ", decides->str().empty() ? "\"\"" : decides->str(),
                               ": it belongs to ", needed(*decides, condition))};
  }
  return std::nullopt;
}

std::string conditions_text(const Field& field, const Config& config) {
  std::vector<std::string> out;
  for (const auto& condition : field.info().needs) {
    const auto* decides = deciding_field(config, condition.on);
    if (decides != nullptr && (!condition.values.empty() || !on_by_default(*decides)))
      out.push_back(needed(*decides, condition));
    else if (decides == nullptr && condition.on.find('.') == std::string::npos && condition.on != kStepKind)
      // A fact; kStepKind is one of a single verb.
      out.push_back(join(condition.values, " or "));
  }
  return join(out, ", ");
}

}  // namespace shade
