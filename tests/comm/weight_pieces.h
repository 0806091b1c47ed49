// Pieces of 16 bytes of a run's weights, to be looked for in what somebody else has seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

namespace shade::test {

class WeightPieces {
 public:
  // Adds every run of four values of every .safetensors file below the folder. Runs of fewer than three different
  // values are left out: zeros and ones are everywhere.
  void add(const std::filesystem::path& folder);

  size_t size() const { return pieces_.size(); }
  // Number of places where a piece begins.
  size_t found_in(std::string_view bytes) const;

 private:
  std::unordered_set<uint64_t> pieces_;  // by hash
};

// Content of the files of weights of every checkpoint and export below a folder, by their path within it.
std::map<std::string, std::string> weight_files(const std::filesystem::path& folder);

}  // namespace shade::test
