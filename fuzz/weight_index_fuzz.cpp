// Any bytes as a model.safetensors.index.json: refused with a FormatError, or no file of it is outside its folder.
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "shade/io/errors.h"
#include "shade/io/weight_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace shade::io;
  WeightMap weights;
  try {
    weights = parse_weight_index({reinterpret_cast<const char*>(data), size});
  } catch (const FormatError&) {
    return 0;
  }
  for (const auto& [tensor, file] : weights) {
    const auto inside = (std::filesystem::path("/folder") / file).lexically_normal().string();
    SHADE_CHECK(inside.starts_with("/folder/") && inside.size() > std::string("/folder/").size(), file);
  }
  SHADE_CHECK(parse_weight_index(print_weight_index(weights, 0)) == weights, "what we print we read");
  return 0;
}
