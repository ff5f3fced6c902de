// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/output_dir.h"

#include "src/checkpoint/checkpoint_names.h"
#include "src/checkpoint/durable_write.h"

namespace bascule {

OutputDir classify_output_dir(const std::string& output_dir) {
  bool foreign = false;
  for (const std::string& name : folder_entries(output_dir)) {
    if (name == "bascule.json" || checkpoint_step(name)) return OutputDir::kOurs;
    if (!is_leftover(name) && name != kLauncherFolder) foreign = true;
  }
  return foreign ? OutputDir::kOther : OutputDir::kFree;
}

}  // namespace bascule
