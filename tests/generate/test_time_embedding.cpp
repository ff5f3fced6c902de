// SPDX-License-Identifier: Apache-2.0
// Against the formula in long double of the C library. Values of the UNet behind it: the reference cases.
#include "src/generate/drawer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace bascule::test {
namespace {

UnetConfig config_of(std::int64_t width, bool cosines_first, std::int64_t freq_shift) {
  UnetConfig config;
  config.levels = {{width, 2, true}};
  config.flip_sin_to_cos = cosines_first;
  config.freq_shift = freq_shift;
  return config;
}

TEST(TimeEmbedding, HasSinesAndCosinesOfTheTimestep) {
  for (const bool cosines_first : {true, false}) {
    for (const std::int64_t freq_shift : {0, 1}) {
      const UnetConfig config = config_of(320, cosines_first, freq_shift);
      for (const double timestep : {0.0, 1.0, 13.0, 741.0, 249.75, 999.0}) {
        std::vector<float> values(320);
        write_time_embedding(values.data(), config, timestep);
        for (std::size_t i = 0; i < 160; ++i) {
          const long double angle = static_cast<long double>(timestep) *
                                    std::pow(10000.0L, -static_cast<long double>(i) / (160 - freq_shift));
          const float cosine = static_cast<float>(std::cos(angle)), sine = static_cast<float>(std::sin(angle));
          EXPECT_NEAR(values[i], cosines_first ? cosine : sine, 6e-8f) << timestep << " " << i;
          EXPECT_NEAR(values[160 + i], cosines_first ? sine : cosine, 6e-8f) << timestep << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace bascule::test
