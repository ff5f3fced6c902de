// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace bascule {

// A fact for people: {"compiler", "g++ 12.2"}.
struct NamedText {
  std::string name;
  std::string value;
};

}  // namespace bascule
