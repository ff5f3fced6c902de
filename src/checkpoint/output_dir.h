// SPDX-License-Identifier: Apache-2.0
// Whose an output folder is. Before the seal.
#pragma once

#include <string>

namespace bascule {

// A folder of the run's launcher in output_dir while ranks are at work; what a killed one left is its own to remove.
inline constexpr char kLauncherFolder[] = ".launcher";

enum class OutputDir {
  kFree,   // absent or empty, but for leftovers of ours
  kOurs,   // holds checkpoints of ours or the marker file bascule.json
  kOther,  // holds something else: not to be written into
};
OutputDir classify_output_dir(const std::string& output_dir);

}  // namespace bascule
