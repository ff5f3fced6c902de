// SPDX-License-Identifier: Apache-2.0
// `bascule bringup`: what this machine can do, and why it does less than a saved profile says.
#pragma once

#include <string>
#include <vector>

namespace bascule {

struct BringUpArguments {
  bool quick = false;
  double long_minutes = 0.0;      // 0: no long comparison of bits
  std::vector<std::string> only;  // items; empty: all
  std::string folder = ".";
  std::string save, against, html;  // files; "" for none
  bool json = false;
};

// Returns 0; 7 where a core computes wrong bits, or a figure is slower than in the profile. Throws Error.
int bringup_command(const BringUpArguments& arguments);

}  // namespace bascule
