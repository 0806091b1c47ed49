#include "shade/report/palette.h"

#include <array>
#include <map>

namespace shade::report {
namespace {

using Palette = std::map<std::string, std::string>;

// A name that no table has gets a colour by its letters: another one in the same folder keeps its own.
std::string find(const Palette& palette, const std::string& name) {
  static constexpr std::array kSpare{"#8c6d31", "#17a2a2", "#b5488f", "#5a7d2b", "#9a5b4f"};
  if (const auto found = palette.find(name); found != palette.end()) return found->second;
  size_t sum = 0;
  for (const char c : name) sum += static_cast<unsigned char>(c);
  return kSpare[sum % kSpare.size()];
}

}  // namespace

std::string colour_of_method(const std::string& method) {
  static const Palette kColours{{"no_dp", "#7d8799"},     {"materialize", "#d55e00"}, {"ghost", "#1f77c9"},
                                {"flash", "#e69f00"},     {"bookkeeping", "#009e73"}, {"flash_bookkeeping", "#cc5fa5"},
                                {"streaming", "#56b4e9"}, {"auto", "#7a52cc"}};
  return find(kColours, method);
}

std::string colour_of_shard(const std::string& shard) {
  static const Palette kColours{
      {"none", "#7d8799"}, {"ddp", "#1f77c9"}, {"zero2", "#e69f00"}, {"zero3", "#009e73"}, {"hsdp", "#cc5fa5"}};
  return find(kColours, shard);
}

std::string colour_of_memory(const std::string& kind) {
  static const Palette kColours{{"parameters", "#1f77c9"},    {"gathered_parameters", "#7cc0f0"},
                                {"gradients", "#d55e00"},     {"optimizer", "#e6b800"},
                                {"activations", "#009e73"},   {"kept_for_private_step", "#7a52cc"},
                                {"norm_samples", "#cc5fa5"},  {"temporary", "#9fb04a"},
                                {"communication", "#b07050"}, {"data", "#5f9ea0"},
                                {"other", "#9aa2ae"}};
  return find(kColours, kind);
}

std::string colour_of_run(size_t number) {
  static constexpr std::array kColours{"#1f77c9", "#d55e00", "#009e73", "#cc5fa5",
                                       "#e69f00", "#7a52cc", "#56b4e9", "#7d8799"};
  return kColours[number % kColours.size()];
}

}  // namespace shade::report
