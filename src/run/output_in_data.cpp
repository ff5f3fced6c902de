// SPDX-License-Identifier: Apache-2.0
#include "src/run/output_in_data.h"

#include <string>

#include "src/base/error.h"
#include "src/index/data_files.h"

namespace bascule {

void check_output_is_apart(const DataSettings& data, const RunSettings& run, const TrainingSettings& training,
                           const SettingsOrigin& origin) {
  const PathSetting& output = run.output_dir;
  const auto check = [&](bool is_read, const PathsSetting& paths, const std::string& key) {
    const std::string around = is_read ? path_with_folder(paths, output.resolved) : "";
    if (around.empty()) return;
    throw Error(ErrorKind::kSettings, where_written(origin, "training.output_dir"),
                "training.output_dir = \"" + output.written + "\" lies in the data of " + key + " = \"" + around + "\"",
                "choose a folder outside of the data");
  };
  check(training.do_train, data.train_file, "data.train_file");
  check(training.do_eval, data.evaluation_file(),
        data.validation_share > 0.0 ? "data.train_file" : "data.validation_file");
  check(training.do_predict, data.test_file, "data.test_file");
}

}  // namespace bascule
