// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/finding.h"

namespace bascule {

const char* level_name(Level level) {
  constexpr const char* kNames[] = {"fails", "warning", "note"};
  return kNames[static_cast<int>(level)];
}

}  // namespace bascule
