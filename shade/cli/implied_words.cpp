#include "shade/cli/implied_words.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/cli/foreign_words.h"
#include "shade/measure/matrix.h"

namespace shade::cli {
namespace {

enum class Of { any, text, linear };  // models that a row is about

struct Implied {
  std::string_view given;   // as it is spelled; empty: always
  std::string_view option;  // that follows, unless it is given
  std::string_view value;
  Of models = Of::any;
};

constexpr Implied kImplied[] = {
    {.given = "--image-size", .option = "--model", .value = "dit-l"},
    {.given = "--patch-size", .option = "--model", .value = "dit-l"},
    {.given = "--experiment", .option = "--model", .value = "dit-l"},
    {.given = "--data-parallel", .option = "--model", .value = "linear"},
    {.given = "", .option = "--batch-size", .value = "8192", .models = Of::linear},
    {.given = "--mode", .option = "--task", .value = "classify", .models = Of::text},
    {.given = "--mode", .option = "--lr", .value = "1e-5", .models = Of::text},
};

// A folder may hold any model: nothing follows from its name.
bool is_about(const Implied& row, const std::string& model) {
  if (row.models == Of::linear) return model == "linear";
  if (row.models == Of::any) return true;
  for (const auto* other : {"dit", "DiT", "linear"})
    if (model.starts_with(other)) return false;
  return !std::filesystem::exists(model);
}

}  // namespace

ImpliedWords with_implied(std::vector<std::string> arguments) {
  std::map<std::string, std::string> given;  // by the usual spelling, and as they are spelled
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].starts_with("--")) continue;
    const auto word = given_at(arguments, i);
    given[word.option] = given[measure::usual_spelling(word.option)] = word.value.value_or("");
  }
  ImpliedWords out{.arguments = std::move(arguments), .notes = {}};
  if (given.contains("--config") || given.contains("--model-folder")) return out;
  for (const auto& [word, option, value, models] : kImplied) {
    const std::string name(option);
    if ((!word.empty() && !given.contains(std::string(word))) || given.contains(name)) continue;
    if (!is_about({.given = word, .option = option, .value = value, .models = models}, given["--model"])) continue;
    out.arguments.insert(out.arguments.end(), {name, std::string(value)});
    given[name] = value;
    out.notes.push_back(word.empty() ? text(name, " ", value, ", the usual one of --model linear")
                                     : text(name, " ", value, ": ", word, " was given, and ", name, " was not"));
  }
  return out;
}

}  // namespace shade::cli
