// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_doubled.h"

namespace bascule::BASCULE_ISA {

void doubled_convolution_bf16(const DoubledConvolution& a) {
  const SubnormalsAreZeros mode;
  convolve_doubled<Bf16Steps>(a);
}

}  // namespace bascule::BASCULE_ISA
