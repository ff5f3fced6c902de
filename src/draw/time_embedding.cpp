// SPDX-License-Identifier: Apache-2.0
#include "src/draw/time_embedding.h"

#include "src/base/elementary.h"

namespace bascule {

void write_time_embedding(float* out, const UnetConfig& config, double timestep) {
  const std::int64_t half = config.time_width() / 2;
  float* const cosines = out + (config.flip_sin_to_cos ? 0 : half);
  float* const sines = out + (config.flip_sin_to_cos ? half : 0);
  const double scale = -fixed_log(10000.0) / static_cast<double>(half - config.freq_shift);
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = timestep * fixed_exp(scale * static_cast<double>(i));
    cosines[i] = static_cast<float>(fixed_cos(angle));
    sines[i] = static_cast<float>(fixed_sin(angle));
  }
}

}  // namespace bascule
