// SPDX-License-Identifier: Apache-2.0
#include "kernels/resize.h"

namespace bascule {

// Each is defined by simd/resize.cpp, compiled for its ISA.
namespace avx2 {
extern const ResizeKernels kResizeKernels;
}
namespace avx512 {
extern const ResizeKernels kResizeKernels;
}

const ResizeKernels& resize_kernels_for(Isa isa) {
  return isa == Isa::kAvx512 ? avx512::kResizeKernels : avx2::kResizeKernels;
}

}  // namespace bascule
