// SPDX-License-Identifier: Apache-2.0
// The limits of this machine, measured with as many threads as a run has: `bascule bench` and the report of a run that
// draws compare operations with them. The same work as the items "products" and "memory" of a bring-up, once instead of
// in rounds.
#pragma once

#include <cstddef>

#include "kernels/gemm/gemm.h"
#include "kernels/isa.h"
#include "src/settings/settings.h"

namespace bascule {

struct MachineLimits {
  // Matrix products of a transformer's sizes, the best of several; bf16: products of bf16 activations and float32
  // weights (kernels/gemm_tile.h), 0 where the run has none.
  double float32_gflops_per_second = 0.0, bf16_gflops_per_second = 0.0;
  double gigabytes_per_second = 0.0;  // read and written by a plain copy of memory larger than the caches
};

inline constexpr std::size_t kLimitsBytes = std::size_t{300} << 20;  // what measuring takes, given back at once

// type: of the run's products. Takes about a second. While memory is not sealed.
MachineLimits measure_limits(Products products, GemmType type, Isa isa, int threads);

// The arithmetic of measuring them, in floating-point operations.
double limits_flops(GemmType type);

// How long work takes at the limits: its arithmetic, or its memory traffic where that takes longer.
double seconds_at_limits(double flops, double bytes, bool in_bf16, const MachineLimits& limits);

}  // namespace bascule
