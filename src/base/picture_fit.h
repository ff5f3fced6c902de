// SPDX-License-Identifier: Apache-2.0
// How an image processor of Transformers makes square pictures of those of any ratio.
#pragma once

namespace bascule {

enum class PictureFit {
  kShorterSide,     // resizes the shorter side and crops the centre
  kStretch,         // resizes both sides, and crops the centre only where its file says so
  kStretchAndCrop,  // resizes both sides, and crops the centre unless its file says otherwise
};

}  // namespace bascule
