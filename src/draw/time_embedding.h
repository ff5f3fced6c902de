// SPDX-License-Identifier: Apache-2.0
// What a UNet reads of a timestep. Source: get_timestep_embedding() of Diffusers, which computes the angles in float32;
// here they are in float64, and each number is rounded once.
#pragma once

#include "src/models/unet_config.h"

namespace bascule {

// out (config.time_width()): with w_i = 10000^(-i / (half - freq_shift)), half of the numbers are cos(t w_i), the
// others sin(t w_i). 0 <= timestep < 100,000; it may be fractional.
void write_time_embedding(float* out, const UnetConfig& config, double timestep);

}  // namespace bascule
