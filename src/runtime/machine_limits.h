// SPDX-License-Identifier: Apache-2.0
// The limits of this machine, measured with the run's own threads: the ceiling that `bascule bench` compares with.
#pragma once

#include "kernels/gemm/gemm.h"
#include "src/runtime/threads.h"

namespace bascule {

struct MachineLimits {
  double gflops_per_second = 0.0;     // float32 matrix products of a transformer's sizes, the best of several
  double gigabytes_per_second = 0.0;  // read and written by a plain copy of memory larger than the caches
};

// Takes about a second and 300 MiB, given back at once. Before the seal.
MachineLimits measure_limits(Threads& threads, GemmLibrary& products);

}  // namespace bascule
