#include "shade/report/palette.h"

#include <array>
#include <cmath>
#include <map>

#include "shade/catalog/methods.h"
#include "shade/catalog/strategies.h"

namespace shade::report {
namespace {

// A name that no table has gets a colour by its letters: another one in the same folder keeps its own.
std::string spare_colour(const std::string& name) {
  static constexpr std::array kSpare{"#8c6d31", "#17a2a2", "#b5488f", "#5a7d2b", "#9a5b4f"};
  size_t sum = 0;
  for (const char c : name) sum += static_cast<unsigned char>(c);
  return kSpare[sum % kSpare.size()];
}

// Of black (0) or white (255).
struct Mix {
  int towards;
  double share;
};
std::string mixed(const std::string& colour, Mix mix) {
  std::string out = "#";
  for (const size_t at : {1U, 3U, 5U}) {
    const int part = std::stoi(colour.substr(at, 2), nullptr, 16);
    const auto level = static_cast<int>(std::lround(part + mix.share * (mix.towards - part)));
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += {kDigits[static_cast<size_t>(level >> 4)], kDigits[static_cast<size_t>(level & 15)]};
  }
  return out;
}

}  // namespace

std::string colour_of_method(const std::string& method) {
  const auto* row = catalog::find_row<catalog::MethodInfo>(catalog::kMethods, method);
  return row == nullptr ? spare_colour(method) : std::string(row->colour);
}

std::string colour_of_shard(const std::string& shard) {
  const auto* row = catalog::find_row<catalog::StrategyInfo>(catalog::kStrategies, shard);
  return row == nullptr ? spare_colour(shard) : std::string(row->colour);
}

std::string distinct_colour(size_t number) {
  static constexpr std::array<const char*, kDistinctColours> kColours{"#2180eb", "#e96b1b", "#10a271", "#bf57b0",
                                                                      "#f8af06", "#7045bc", "#43cdff", "#9c003a",
                                                                      "#955e25", "#006875", "#8ace8e", "#a99bb5"};
  return kColours[number % kColours.size()];
}

std::string colour_of_memory(const std::string& kind) {
  static const std::map<std::string, size_t> kNumbers{{"parameters", 0},          {"gradients", 1},
                                                      {"activations", 2},         {"norm_samples", 3},
                                                      {"optimizer", 4},           {"kept_for_private_step", 5},
                                                      {"gathered_parameters", 6}, {"gram_matrices", 7},
                                                      {"communication", 8},       {"data", 9},
                                                      {"temporary", 10},          {"other", 11}};
  const auto found = kNumbers.find(kind);
  return found == kNumbers.end() ? spare_colour(kind) : distinct_colour(found->second);
}

// Light colours: dark text is written on them.
std::string colour_of_span(const std::string& name) {
  static const std::map<std::string, std::string> kColours{
      {"forward", "#6ac7f4"},         {"backward", "#558ec4"},     {"first_backward", "#558ec4"},
      {"second_backward", "#939cf8"}, {"norm", "#ee9b0b"},         {"sample_gradients", "#ee9b0b"},
      {"coefficients", "#c06799"},    {"second_phase", "#c1c188"}, {"noise", "#a96cf7"},
      {"optimizer", "#32b277"},       {"data", "#e8d900"},         {"unit_forward", "#b0e2fa"},
      {"unit_backward", "#8fb4d8"},   {"all_gather", "#53c0dd"},   {"reduce_scatter", "#c79ab8"},
      {"reduce", "#96f0e1"}};
  if (name.ends_with("_wait")) return "#f0805f";
  const auto found = kColours.find(name);
  return found == kColours.end() ? "#a8a8a8" : found->second;
}

std::string shade_of(const std::string& colour, size_t number) {
  static constexpr std::array<Mix, 5> kMixes{{{0, 0}, {255, 0.5}, {0, 0.4}, {255, 0.72}, {0, 0.65}}};
  return mixed(colour, kMixes[number % kMixes.size()]);
}

std::string paler(const std::string& colour) { return mixed(colour, {255, 0.7}); }

std::string colour_of_run(size_t number) {
  static constexpr std::array kColours{"#1f77c9", "#d55e00", "#009e73", "#cc5fa5",
                                       "#e69f00", "#7a52cc", "#56b4e9", "#7d8799"};
  return kColours[number % kColours.size()];
}

}  // namespace shade::report
