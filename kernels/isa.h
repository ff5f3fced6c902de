// SPDX-License-Identifier: Apache-2.0
// The instruction sets that kernels are compiled for, and which of them this machine runs.
#pragma once

namespace bascule {

enum class Isa : int { kAvx2 = 0, kAvx512 = 1 };

constexpr const char* isa_name(Isa isa) { return isa == Isa::kAvx2 ? "avx2" : "avx512"; }

// Whether CPU and operating system run this set.
bool isa_supported(Isa isa);
// The best supported set. Below AVX2 with FMA there is none: machine_runs_bascule() is false.
Isa best_isa();
bool machine_runs_bascule();

}  // namespace bascule
