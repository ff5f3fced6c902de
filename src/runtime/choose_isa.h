// SPDX-License-Identifier: Apache-2.0
// The instruction set of a process and the library of its products, as the settings choose them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/gemm/gemm.h"
#include "kernels/isa.h"
#include "src/settings/settings.h"

namespace bascule {

// From the word of a setting or an option to the instruction set that this process uses.

// "" or "auto": the best that this CPU runs, for sums of tiles kAmx where this process may use it. Throws Error
// kSettings for a word that is none, or a set that this CPU lacks.
Isa choose_isa(const std::string& name, Bf16Law law = Bf16Law::kPairs);

// That of a run.
Isa choose_isa(const MachineSettings& machine, Precision precision);
// The kernels of a run with this instruction set, which have its law of bf16 sums.
const KernelTable& kernels_for(Isa isa, const MachineSettings& machine);
// For the line that a run begins with: the set, and the law where it is not the default.
std::string isa_text(Isa isa, const MachineSettings& machine, Precision precision);

// What a run says of bf16 on this CPU: that its instruction is missing, or that tiles are there and not used; "" where
// there is nothing to say.
std::string note_on_bf16(const MachineSettings& machine, Precision precision);

// The word that choose_isa() takes for a setting.
const char* isa_word(IsaSetting isa);

// From the setting machine.products to the library that makes a process's matrix products.

// Throws Error kSettings where this program was built without the library.
void require_products(const MachineSettings& machine, const SettingsOrigin& origin);

// Memory of ours that products work in, of all threads together; 64-byte aligned. oneDNN has its own.
std::size_t products_bytes(Products products, GemmType type, int threads);
// Before the seal, after require_products(). `scratch`: products_bytes(). `type`: kBf16 where some products are bf16.
std::unique_ptr<GemmLibrary> make_products(Products products, GemmType type, const KernelTable& kernels, int threads,
                                           void* scratch);

}  // namespace bascule
