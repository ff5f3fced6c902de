// SPDX-License-Identifier: Apache-2.0
// From the word of a setting or an option to the instruction set that this process uses.
#pragma once

#include <string>

#include "kernels/isa.h"
#include "src/settings/settings.h"

namespace bascule {

// "" or "auto": the best that this CPU runs. Throws Error kSettings for a word that is none, or a set that this CPU
// lacks.
Isa choose_isa(const std::string& name);

// What a run in bf16 says of a CPU without the instruction for it; "" where it has it.
const char* note_on_bf16();

// The word that choose_isa() takes for a setting.
const char* isa_word(IsaSetting isa);

}  // namespace bascule
