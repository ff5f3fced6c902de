// SPDX-License-Identifier: Apache-2.0
// A fact of the machine in words: for a bring-up's causes and its page.
#pragma once

#include <string>

#include "src/machine/machine.h"

namespace bascule {

inline std::string known(const TextFact& fact) { return fact.value_or("unknown"); }

}  // namespace bascule
