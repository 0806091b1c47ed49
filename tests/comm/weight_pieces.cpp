#include "tests/comm/weight_pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>

#include "shade/base/error.h"

namespace shade::test {
namespace {

constexpr size_t kPiece = 16, kValue = 4;

uint64_t hash_at(const char* bytes) {
  std::array<uint64_t, 2> halves{};
  std::memcpy(halves.data(), bytes, kPiece);
  const uint64_t mixed = (halves[0] ^ halves[0] >> 32) * 0x9e3779b97f4a7c15u + halves[1];
  return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
}

bool is_telling(const char* bytes) {
  std::array<uint32_t, 4> values{};
  std::memcpy(values.data(), bytes, kPiece);
  std::sort(values.begin(), values.end());
  return std::unique(values.begin(), values.end()) - values.begin() > 2;
}

}  // namespace

std::map<std::string, std::string> weight_files(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  if (!std::filesystem::exists(folder)) return out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    out[entry.path().lexically_relative(folder)] = {std::istreambuf_iterator<char>(in), {}};
  }
  return out;
}

void WeightPieces::add(const std::filesystem::path& folder) {
  for (const auto& [name, content] : weight_files(folder)) {
    uint64_t header = 0;
    SHADE_REQUIRE(content.size() > sizeof header, name, " is no safetensors file");
    std::memcpy(&header, content.data(), sizeof header);
    for (size_t at = sizeof header + header; at + kPiece <= content.size(); at += kValue)
      if (is_telling(content.data() + at)) pieces_.insert(hash_at(content.data() + at));
  }
}

size_t WeightPieces::found_in(std::string_view bytes) const {
  size_t found = 0;
  for (size_t at = 0; at + kPiece <= bytes.size(); ++at) found += pieces_.contains(hash_at(bytes.data() + at));
  return found;
}

}  // namespace shade::test
