// SPDX-License-Identifier: Apache-2.0
// Short texts with figures in them: formatted("%.2f s", 1.5) is "1.50 s".
#pragma once

#include <cstdio>
#include <string>

namespace bascule {

// As printf writes it, cut after 511 bytes.
template <typename... Values>
std::string formatted(const char* form, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}

}  // namespace bascule
