// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/choose_isa.h"

#include "src/base/error.h"

namespace bascule {
namespace {

Isa isa_called(const std::string& name) {
  for (const Isa isa : kAllIsas) {
    if (name == isa_name(isa)) return isa;
  }
  throw Error(ErrorKind::kSettings, "isa", "\"" + name + "\" is not an instruction set",
              "use auto, avx2, avx512, avx512_bf16 or scalar");
}

}  // namespace

const char* isa_word(IsaSetting isa) {
  constexpr const char* kWords[] = {"auto", "avx2", "avx512", "scalar", "avx512_bf16"};
  return kWords[static_cast<int>(isa)];
}

Isa choose_isa(const std::string& name) {
  if (!machine_runs_bascule())
    throw Error(ErrorKind::kSettings, "this CPU", "lacks AVX2 or FMA", "Bascule needs a CPU with both");
  const Isa isa = name.empty() || name == "auto" ? best_isa() : isa_called(name);
  if (!isa_supported(isa)) throw Error(ErrorKind::kSettings, "isa", "this CPU does not support " + name, "use auto");
  return isa;
}

const char* note_on_bf16() {
  if (isa_supported(Isa::kAvx512Bf16)) return "";
  return "plan: this CPU has no bf16 instruction; bf16 products run as float32 multiply-adds here: the same bits, no "
         "faster";
}

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
