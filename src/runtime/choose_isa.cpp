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

}  // namespace bascule
