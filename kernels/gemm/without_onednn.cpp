// SPDX-License-Identifier: Apache-2.0
// In place of oneDNN where the program is built without it.
#include "kernels/gemm/gemm.h"

namespace bascule {

std::unique_ptr<GemmLibrary> onednn_products(Isa, int) { return nullptr; }

std::string onednn_version() { return "none"; }

}  // namespace bascule
