// SPDX-License-Identifier: Apache-2.0
// The limits of this machine, measured with the run's own threads: the ceiling that `bascule bench` compares with. The
// same work as the items "products" and "memory" of a bring-up, once instead of in rounds.
#pragma once

#include "kernels/gemm/gemm.h"
#include "src/runtime/threads.h"

namespace bascule {

struct MachineLimits {
  // Matrix products of a transformer's sizes, the best of several; bf16: products of bf16 activations and float32
  // weights (kernels/gemm_tile.h), 0 where the run has none.
  double float32_gflops_per_second = 0.0, bf16_gflops_per_second = 0.0;
  double gigabytes_per_second = 0.0;  // read and written by a plain copy of memory larger than the caches
};

// products: of `type`. Takes about a second and 300 MiB, given back at once. Before the seal.
MachineLimits measure_limits(Threads& threads, GemmLibrary& products, GemmType type);

}  // namespace bascule
