// SPDX-License-Identifier: Apache-2.0
#include "src/base/float_environment.h"

#include <cfenv>

namespace bascule {

// The C library's default environment includes the bits that flush subnormals: MXCSR on x86-64, FPCR on aarch64.
void use_default_float_environment() noexcept { std::fesetenv(FE_DFL_ENV); }

}  // namespace bascule
