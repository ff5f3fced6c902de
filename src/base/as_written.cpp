// SPDX-License-Identifier: Apache-2.0
#include "src/base/as_written.h"

#include <charconv>

namespace bascule {

double as_written(float value) noexcept {
  char digits[32];
  const char* const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  double number = 0.0;
  std::from_chars(digits, end, number);
  return number;
}

}  // namespace bascule
