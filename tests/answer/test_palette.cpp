// SPDX-License-Identifier: Apache-2.0
// The colours of lines, read from the style sheet: four lines of a chart differ for every kind of sight and in print.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/answer/page.h"

namespace bascule {
namespace {

using Triple = std::array<double, 3>;
using Matrix = std::array<Triple, 3>;

// Linear sRGB as seen without one kind of cone. Source: Machado, Oliveira and Fernandes 2009, severity 1.
constexpr Matrix kSights[] = {
    {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}},
    {{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}}},
    {{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}}},
    {{{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}}}};
constexpr const char* kSightNames[] = {"all cones", "protanopia", "deuteranopia", "tritanopia"};
// To CIE XYZ, D65. Source: IEC 61966-2-1.
constexpr Matrix kToXyz = {
    {{0.4124564, 0.3575761, 0.1804375}, {0.2126729, 0.7151522, 0.0721750}, {0.0193339, 0.1191920, 0.9503041}}};
constexpr Triple kWhite = {0.95047, 1.0, 1.08883};

Triple times(const Matrix& matrix, const Triple& v) {
  Triple out = {};
  for (std::size_t i = 0; i < 3; ++i) out[i] = matrix[i][0] * v[0] + matrix[i][1] * v[1] + matrix[i][2] * v[2];
  return out;
}

// "#rgb" or "#rrggbb", behind the name of the nth scheme: 0 light, 1 dark.
Triple linear_colour(const std::string& name, int scheme) {
  const std::string style = html_style();
  std::size_t at = style.find(name + ":#");
  if (scheme == 1) at = style.find(name + ":#", at + 1);
  std::string digits = style.substr(at + name.size() + 2, 6);
  if (digits.find_first_of(";}") == 3) digits = {digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]};
  Triple out = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const double level = std::stoi(digits.substr(2 * i, 2), nullptr, 16) / 255.0;
    out[i] = level <= 0.04045 ? level / 12.92 : std::pow((level + 0.055) / 1.055, 2.4);
  }
  return out;
}

// CIE L*, a*, b*.
Triple lab(const Triple& linear, const Matrix& sight) {
  Triple seen = times(sight, linear);
  for (double& value : seen) value = std::clamp(value, 0.0, 1.0);
  Triple f = times(kToXyz, seen);
  for (std::size_t i = 0; i < 3; ++i) {
    const double t = f[i] / kWhite[i];
    f[i] = t > 216.0 / 24389.0 ? std::cbrt(t) : (24389.0 / 27.0 * t + 16.0) / 116.0;
  }
  return {116.0 * f[1] - 16.0, 500.0 * (f[0] - f[1]), 200.0 * (f[1] - f[2])};
}

double contrast(const Triple& a, const Triple& b) {
  const double y = times(kToXyz, a)[1], z = times(kToXyz, b)[1];
  return (std::max(y, z) + 0.05) / (std::min(y, z) + 0.05);
}

std::string colour_name(int number) { return "--c" + std::to_string(number); }

// A difference of 2.3 is just seen side by side; lines are thin and apart, so ten times that is asked for.
TEST(Palette, FourLinesDifferForEveryKindOfSight) {
  for (const int scheme : {0, 1}) {
    for (std::size_t sight = 0; sight < std::size(kSights); ++sight) {
      for (int i = 1; i <= 4; ++i) {
        for (int j = 1; j < i; ++j) {
          const Triple a = lab(linear_colour(colour_name(i), scheme), kSights[sight]),
                       b = lab(linear_colour(colour_name(j), scheme), kSights[sight]);
          EXPECT_GE(
              std::sqrt((a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2])),
              23.0)
              << kSightNames[sight] << ": " << i << " and " << j << ", scheme " << scheme;
        }
      }
    }
  }
}

TEST(Palette, FourLinesDifferInGrey) {
  for (const int scheme : {0, 1}) {
    std::vector<double> lightness;
    for (int i = 1; i <= 4; ++i) lightness.push_back(lab(linear_colour(colour_name(i), scheme), kSights[0])[0]);
    std::sort(lightness.begin(), lightness.end());
    for (std::size_t i = 1; i < lightness.size(); ++i) EXPECT_GE(lightness[i] - lightness[i - 1], 9.0) << scheme;
  }
}

// WCAG 2.2: 4.5 for text, which the colours are the ground and the ink of.
TEST(Palette, EveryColourCanBeReadOnACardAndCarriesText) {
  for (const int scheme : {0, 1}) {
    for (int i = 1; i <= 8; ++i) {
      const Triple colour = linear_colour(colour_name(i), scheme);
      EXPECT_GE(contrast(colour, linear_colour("--card", scheme)), 4.5) << i << ", scheme " << scheme;
      EXPECT_GE(contrast(colour, linear_colour("--on", scheme)), 4.5) << i << ", scheme " << scheme;
    }
  }
}

// Where colour says nothing, dashes do: each of the eight lines has its own.
TEST(Palette, EveryLineHasItsOwnDashes) {
  const std::string style = html_style();
  std::vector<std::string> dashes = {"none"};
  for (int i = 2; i <= 8; ++i) {
    const std::string rule = ".line.c" + std::to_string(i) + "{stroke-dasharray:";
    const std::size_t at = style.find(rule);
    ASSERT_NE(at, std::string::npos) << i;
    dashes.push_back(style.substr(at + rule.size(), style.find('}', at) - at - rule.size()));
  }
  std::sort(dashes.begin(), dashes.end());
  EXPECT_EQ(std::adjacent_find(dashes.begin(), dashes.end()), dashes.end());
}

}  // namespace
}  // namespace bascule
