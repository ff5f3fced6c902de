// SPDX-License-Identifier: Apache-2.0
// oneDNN's bf16 product of a GemmSpec, whole, on the calling thread: what bench_gemm compares ours with.
#pragma once

#include <memory>

#include "kernels/gemm/gemm.h"

namespace bascule {

class OnednnBf16 {
 public:
  virtual ~OnednnBf16() = default;
  virtual void run(const GemmRun& run) const = 0;

  // With at most this instruction set, the same in one process. Null if built without oneDNN, or where it has no such
  // product but its reference one.
  static std::unique_ptr<OnednnBf16> make(const GemmSpec& spec, Isa isa);
};

}  // namespace bascule
