// SPDX-License-Identifier: Apache-2.0
#include "src/run/output_in_data.h"

#include <string>
#include <utility>

#include "src/base/error.h"
#include "src/index/data_files.h"

namespace bascule {

void check_output_is_apart(const Settings& settings) {
  const DataSettings& data = settings.data;
  const PathSetting& output = settings.training.output_dir;
  for (const auto& [paths, key] : {std::pair{&data.train_file, "data.train_file"},
                                   {&data.validation_file, "data.validation_file"},
                                   {&data.test_file, "data.test_file"}}) {
    const std::string around = path_with_folder(*paths, output.resolved);
    if (around.empty()) continue;
    throw Error(ErrorKind::kSettings, where_written(settings, "training.output_dir"),
                "training.output_dir = \"" + output.written + "\" lies in the data of " + key + " = \"" + around + "\"",
                "choose a folder outside of the data");
  }
}

}  // namespace bascule
