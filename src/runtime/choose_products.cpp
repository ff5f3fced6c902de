// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/choose_products.h"

#include "src/base/error.h"

namespace bascule {

void require_products(const MachineSettings& machine, const SettingsOrigin& origin) {
  if (machine.products == Products::kOnednn && onednn_version() == "none") {
    throw Error(ErrorKind::kSettings, where_written(origin, "machine.products"),
                "machine.products: this program was built without oneDNN",
                "use \"ours\", or build with -Donednn=enabled");
  }
}

namespace {

std::size_t scratch_bytes(GemmType type) {
  return type == GemmType::kBf16 ? kGemmTileBf16ScratchBytes : kGemmTileScratchBytes;
}

}  // namespace

std::size_t products_bytes(Products products, GemmType type, int threads) {
  return products == Products::kOurs ? scratch_bytes(type) * static_cast<std::size_t>(threads) : 0;
}

std::unique_ptr<GemmLibrary> make_products(Products products, GemmType type, const KernelTable& kernels, int threads,
                                           void* scratch) {
  if (products == Products::kOurs) return own_products(kernels, threads, scratch, scratch_bytes(type));
  return onednn_products(kernels.isa, threads);
}

}  // namespace bascule
