// SPDX-License-Identifier: Apache-2.0
// Short texts of a bring-up: for its causes and its page.
#pragma once

#include <cstdio>
#include <string>

#include "src/machine/machine.h"

namespace bascule {

// As printf writes it, cut after 511 bytes.
template <typename... Values>
std::string formatted(const char* form, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, form, values...);
  return text;
}

inline std::string known(const TextFact& fact) { return fact.value_or("unknown"); }

}  // namespace bascule
