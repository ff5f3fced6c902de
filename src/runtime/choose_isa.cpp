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
              "use auto, avx2, avx512, avx512_bf16, amx or scalar");
}

}  // namespace

const char* isa_word(IsaSetting isa) {
  constexpr const char* kWords[] = {"auto", "avx2", "avx512", "scalar", "avx512_bf16", "amx"};
  return kWords[static_cast<int>(isa)];
}

Isa choose_isa(const std::string& name, Bf16Law law) {
  if (!machine_runs_bascule())
    throw Error(ErrorKind::kSettings, "this CPU", "lacks AVX2 or FMA", "Bascule needs a CPU with both");
  const bool is_free = name.empty() || name == "auto";
  if (is_free && law == Bf16Law::kTiles && isa_supported(Isa::kAmx)) return Isa::kAmx;
  const Isa isa = is_free ? best_isa() : isa_called(name);
  if (!isa_supported(isa)) throw Error(ErrorKind::kSettings, "isa", "this CPU does not support " + name, "use auto");
  return isa;
}

namespace {

bool has_sums_of_tiles(const MachineSettings& machine, Precision precision) {
  return precision == Precision::kBf16 && machine.bf16_sums == Bf16Sums::kTiles;
}

}  // namespace

Isa choose_isa(const MachineSettings& machine, Precision precision) {
  return choose_isa(isa_word(machine.isa), has_sums_of_tiles(machine, precision) ? Bf16Law::kTiles : Bf16Law::kPairs);
}

const KernelTable& kernels_for(Isa isa, const MachineSettings& machine) {
  return kernels_for(isa, machine.bf16_sums == Bf16Sums::kTiles ? Bf16Law::kTiles : Bf16Law::kPairs);
}

std::string isa_text(Isa isa, const MachineSettings& machine, Precision precision) {
  return std::string(isa_name(isa)) + (has_sums_of_tiles(machine, precision) ? ", bf16 sums of tiles" : "");
}

std::string note_on_bf16(const MachineSettings& machine, Precision precision) {
  if (precision != Precision::kBf16) return "";
  const std::string as_multiply_adds = "bf16 products run as float32 multiply-adds here: the same bits, no faster";
  if (has_sums_of_tiles(machine, precision)) {
    if (isa_supported(Isa::kAmx)) return "";
    return (cpu_has_tiles()
                ? "plan: the system refuses this process the CPU's matrix tiles (AMX; Linux 5.16 grants them); "
                : "plan: this CPU has no matrix tiles (AMX); ") +
           as_multiply_adds;
  }
  if (cpu_has_tiles())
    return "plan: this CPU has matrix tiles (AMX), which are not used: machine.bf16_sums = \"tiles\" is faster, with "
           "other bits";
  return isa_supported(Isa::kAvx512Bf16) ? "" : "plan: this CPU has no bf16 instruction; " + as_multiply_adds;
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
  return onednn_products(set_of_all_kernels(kernels.isa), threads);
}

}  // namespace bascule
