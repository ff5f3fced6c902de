// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/choose_isa.h"

#include "kernels/gemm/gemm.h"
#include "src/base/error.h"

namespace bascule {

const char* isa_word(IsaSetting isa) {
  if (isa == IsaSetting::kAuto) return "auto";
  return isa == IsaSetting::kAvx2 ? "avx2" : "avx512";
}

Isa choose_isa(const std::string& name) {
  if (!machine_runs_bascule())
    throw Error(ErrorKind::kSettings, "this CPU", "lacks AVX2 or FMA", "Bascule needs a CPU with both");
  Isa isa = best_isa();
  if (name == "avx2") {
    isa = Isa::kAvx2;
  } else if (name == "avx512") {
    isa = Isa::kAvx512;
  } else if (!name.empty() && name != "auto") {
    throw Error(ErrorKind::kSettings, "isa", "\"" + name + "\" is not an instruction set", "use auto, avx2 or avx512");
  }
  if (!isa_supported(isa)) throw Error(ErrorKind::kSettings, "isa", "this CPU does not support " + name, "use auto");
  if (!gemm_limit_isa(isa == Isa::kAvx512))
    throw Error(ErrorKind::kInternal, "isa",
                "oneDNN was initialised before it was limited to " + std::string(isa_name(isa)));
  return isa;
}

}  // namespace bascule
