// Any bytes as a recipe: refused with a UsageError, or resolved, and printed as a recipe that reads back the same.
#include <cstddef>
#include <cstdint>

#include "fuzz/in_memory.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/train/spec/recipe.h"

namespace {

// Comments are for people: fields that follow from others, such as a sigma that was found for an epsilon.
std::vector<std::string> fields(const std::string& toml) {
  std::vector<std::string> kept;
  for (const auto& line : shade::split(toml, '\n'))
    if (!line.starts_with('#')) kept.push_back(line);
  return kept;
}

// A field that was a comment may come back as its default, between the others.
bool has_all(const std::vector<std::string>& read_back, const std::vector<std::string>& written) {
  size_t found = 0;
  for (const auto& line : read_back) found += found < written.size() && line == written[found] ? 1 : 0;
  return found == written.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace shade;
  train::Recipe recipe, again;
  Config config, read_back;
  recipe.declare(config);
  again.declare(read_back);
  try {
    config.read_toml_text({reinterpret_cast<const char*>(bytes), size}, "recipe.toml");
  } catch (const UsageError& fault) {
    fuzz::check_not_internal(fault.what());
    return 0;
  }
  const auto printed = train::print_toml(json_values(config));
  read_back.read_toml_text(printed, "printed.toml");
  SHADE_CHECK(has_all(fields(train::print_toml(json_values(read_back))), fields(printed)),
              "it reads back as another:\n", printed);
  try {
    const auto run = train::resolve(recipe, config.stated());
    SHADE_CHECK(train::resolve(*run, config.stated()).json() == run.json(), "resolved again, it changes:\n",
                train::print_toml(run.json()));
  } catch (const UsageError&) {
  } catch (const std::filesystem::filesystem_error&) {  // a name that no file can have
  }
  return 0;
}
