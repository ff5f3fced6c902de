// SPDX-License-Identifier: Apache-2.0
#include "src/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace bascule {

void check_failed(const char* file, int line, const char* condition) noexcept {
  std::fprintf(stderr, "bascule: bug: %s:%d: check failed: %s; please report this line\n", file, line, condition);
  std::fflush(stderr);
  std::_Exit(1);
}

}  // namespace bascule
