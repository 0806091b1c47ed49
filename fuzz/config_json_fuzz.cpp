// Any bytes as a model's config.json: refused with an Error that names the file, or a configuration that is written as
// it was read; a small one becomes a model.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "fuzz/in_memory.h"
#include "shade/models/decoder_config.h"
#include "shade/models/dit.h"
#include "shade/models/linear_stack.h"
#include "shade/models/registry.h"

namespace {

using namespace shade;

bool small(const Json& json) {
  for (const auto& [key, value] : json.items())
    if (value.is_number() && value.get<double>() > (key == "num_hidden_layers" || key == "depth" ? 4 : 600))
      return key.find("position") != key.npos || key.find("theta") != key.npos || key.find("token_id") != key.npos;
  return true;
}

// As the registry does.
Json written(const Json& json) {
  if (json.contains("patch_size")) return models::DitConfig::from_json(json, "config.json").to_json();
  if (json.contains("model_type") && json["model_type"] == "linear")
    return models::LinearStackConfig::from_json(json, "config.json").to_json();
  return models::DecoderConfig::from_json(json, "config.json").to_json();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const std::filesystem::path folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "config_json_fuzz_XXXXXX").string();
    SHADE_CHECK(::mkdtemp(name.data()) != nullptr, "no folder ", name);
    return name;
  }();
  std::ofstream(folder / "config.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  try {
    const auto json = read_json(folder / "config.json");
    const auto once = written(json);
    SHADE_CHECK(written(once) == once, "written, read and written again, it is another: ", once.dump());
    if (small(once)) (void)models::make_model(folder.string(), {}, {});
  } catch (const Error& fault) {
    fuzz::check_not_internal(fault.what());
  }
  return 0;
}
