// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/kernels.h"
#include "kernels/simd/multiply_doubled.h"

namespace bascule::BASCULE_ISA {

void doubled_convolution(const DoubledConvolution& a) { convolve_doubled<Float32Steps>(a); }

}  // namespace bascule::BASCULE_ISA
