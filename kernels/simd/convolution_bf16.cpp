// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_windows.h"

namespace bascule::BASCULE_ISA {

void convolution_bf16(const Convolution& a) {
  const SubnormalsAreZeros mode;
  convolve<Bf16Steps>(a);
}

}  // namespace bascule::BASCULE_ISA
