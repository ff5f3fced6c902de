// SPDX-License-Identifier: Apache-2.0
// `bascule diff RUN_A RUN_B`: the first update, and in it the first tensor, where two runs part.
#pragma once

#include <string>

namespace bascule {

struct DiffArguments {
  std::string a, b;  // folders of runs with report.hash_steps
  bool json = false;
};

// Prints to standard output. Returns 0 where all hashes that both runs have are equal, else 7. Throws Error.
int diff_command(const DiffArguments& arguments);

}  // namespace bascule
