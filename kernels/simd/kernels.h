// SPDX-License-Identifier: Apache-2.0
// The kernels of kernels/table.h as this ISA compiles them; table.cpp collects their addresses. Contracts stand at the
// argument structs.
#pragma once

#include "kernels/table.h"

namespace bascule::BASCULE_ISA {

#define BASCULE_KERNEL(name, Arguments) void name(const Arguments& a);
#include "kernels/kernels.inc"
#undef BASCULE_KERNEL

}  // namespace bascule::BASCULE_ISA
