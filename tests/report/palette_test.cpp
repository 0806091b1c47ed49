// Colours that are drawn together are told apart, by people who see no red or no green too.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "shade/base/memory_scope.h"
#include "shade/report/palette.h"

namespace shade::report {
namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

// Machado, Oliveira, Fernandes 2009, severity 1: of linear sRGB.
constexpr Matrix kNoRed{
    {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}};
constexpr Matrix kNoGreen{
    {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}};
constexpr Matrix kAll{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};

Triple times(const Matrix& matrix, const Triple& of) {
  Triple out{};
  for (size_t i = 0; i < 3; ++i)
    for (size_t k = 0; k < 3; ++k) out[i] += matrix[i][k] * of[k];
  return out;
}

Triple linear(const std::string& colour) {
  Triple out{};
  for (size_t i = 0; i < 3; ++i) {
    const double part = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    out[i] = part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  }
  return out;
}

// OKLab (Ottosson 2020): equal distances look equally different. Black to white is 1.
Triple oklab(const Triple& rgb) {
  constexpr Matrix kCones{{{0.4122214708, 0.5363325363, 0.0514459929},
                           {0.2119034982, 0.6806995451, 0.1073969566},
                           {0.0883024619, 0.2817188376, 0.6299787005}}};
  constexpr Matrix kLab{{{0.2104542553, 0.7936177850, -0.0040720468},
                         {1.9779984951, -2.4285922050, 0.4505937099},
                         {0.0259040371, 0.7827717662, -0.8086757660}}};
  Triple inside = rgb;
  for (auto& part : inside) part = std::clamp(part, 0.0, 1.0);
  auto cones = times(kCones, inside);
  for (auto& part : cones) part = std::cbrt(part);
  return times(kLab, cones);
}

double distance(const std::string& one, const std::string& other, const Matrix& eye) {
  const auto a = oklab(times(eye, linear(one))), b = oklab(times(eye, linear(other)));
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

struct Named {
  std::string name, colour;
};
void expect_distinct(const std::vector<Named>& colours, double least, double least_colour_blind) {
  for (size_t i = 0; i < colours.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      const auto &one = colours[i], &other = colours[k];
      EXPECT_GE(distance(one.colour, other.colour, kAll), least) << one.name << " and " << other.name;
      for (const auto& eye : {kNoRed, kNoGreen})
        EXPECT_GE(distance(one.colour, other.colour, eye), least_colour_blind)
            << one.name << " and " << other.name << " without " << (eye == kNoRed ? "red" : "green");
    }
  }
}

TEST(Palette, EveryTwoKindsOfMemoryAreToldApart) {
  std::vector<Named> colours;
  for (const auto& kind : names_of(MemoryKind::other))
    colours.push_back({std::string(kind.name), colour_of_memory(std::string(kind.name))});
  ASSERT_EQ(colours.size(), static_cast<size_t>(kMemoryKinds));
  expect_distinct(colours, 0.14, 0.08);
  for (const auto& [name, colour] : colours)
    for (const auto* background : {"#ffffff", "#f6f7f9", "#14171d", "#1d222b"})  // of pictures and of the page
      EXPECT_GE(distance(colour, background, kAll), 0.14) << name << " on " << background;
}

TEST(Palette, EveryTwoLinesOfAPictureAreToldApart) {
  std::vector<Named> colours;
  for (size_t i = 0; i < kDistinctColours; ++i) colours.push_back({std::to_string(i), distinct_colour(i)});
  expect_distinct(colours, 0.14, 0.08);
}

TEST(Palette, EveryTwoPhasesOfAStepAreToldApart) {
  std::vector<Named> colours;
  for (const auto* name : {"forward", "backward", "second_backward", "norm", "coefficients", "second_phase", "noise",
                           "optimizer", "data", "reduce", "hash"})
    colours.push_back({name, colour_of_span(name)});
  expect_distinct(colours, 0.09, 0.06);
}

}  // namespace
}  // namespace shade::report
