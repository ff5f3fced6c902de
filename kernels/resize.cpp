// SPDX-License-Identifier: Apache-2.0
#include "kernels/resize.h"

#include "kernels/reference/resize.h"

namespace bascule {

const ResizeKernels& resize_kernels_for(Isa) {
  static constexpr ResizeKernels kReference = {reference::resample_rows_bytes, reference::blend_rows_bytes,
                                               reference::bytes_to_planes, reference::resample_rows_float<float>,
                                               reference::blend_to_planes<float>};
  return kReference;
}

}  // namespace bascule
