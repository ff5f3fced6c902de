// SPDX-License-Identifier: Apache-2.0
// From the setting machine.products to the library that makes a process's matrix products.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/gemm/gemm.h"
#include "src/settings/settings.h"

namespace bascule {

// Throws Error kSettings where this program was built without the library.
void require_products(const MachineSettings& machine, const SettingsOrigin& origin);

// Memory of ours that products work in, of all threads together; 64-byte aligned. oneDNN has its own.
std::size_t products_bytes(Products products, GemmType type, int threads);
// Before the seal, after require_products(). `scratch`: products_bytes(). `type`: kBf16 where some products are bf16.
std::unique_ptr<GemmLibrary> make_products(Products products, GemmType type, const KernelTable& kernels, int threads,
                                           void* scratch);

}  // namespace bascule
