// SPDX-License-Identifier: Apache-2.0
// `bascule reproduce RECORD`: whether a finished run can be repeated here, and whether its repetition gives the same.
#pragma once

#include <string>

namespace bascule {

struct ReproduceArguments {
  std::string record;  // a finished run's folder, or its bascule.json
  std::string output;  // of the repetition; empty: beside the recorded folder
  bool check = false;  // compare what is there; run nothing
  bool json = false;
};

// Prints to standard output; with json what the repeated run prints goes to standard error. Returns 0, or 7 where
// something is not as recorded. Throws Error.
int reproduce_command(const ReproduceArguments& arguments);

}  // namespace bascule
