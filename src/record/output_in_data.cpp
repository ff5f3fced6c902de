// SPDX-License-Identifier: Apache-2.0
#include "src/record/output_in_data.h"

#include <string>

#include "src/base/error.h"
#include "src/index/data_files.h"

namespace bascule {
namespace {

void check_folder(const Settings& settings, const PathSetting& folder, const std::string& name) {
  const DataSettings& data = settings.data;
  const TrainingSettings& training = settings.training;
  const auto check = [&](bool is_read, const PathsSetting& paths, const std::string& key) {
    const std::string around = is_read ? path_with_folder(paths, folder.resolved) : "";
    if (around.empty()) return;
    throw Error(ErrorKind::kSettings, where_written(settings, name),
                name + " = \"" + folder.written + "\" lies in the data of " + key + " = \"" + around + "\"",
                "choose a folder outside of the data");
  };
  check(training.do_train, data.train_file, "data.train_file");
  check(training.do_eval, data.evaluation_file(),
        data.validation_share > 0.0 ? "data.train_file" : "data.validation_file");
  check(training.do_predict, data.test_file, "data.test_file");
}

}  // namespace

void check_output_is_apart(const Settings& settings) {
  check_folder(settings, settings.run.output_dir, "training.output_dir");
  const ReportSettings& report = settings.report;
  if (report.tracking != Tracking::kNone && report.tracking_dir.is_given())
    check_folder(settings, report.tracking_dir, "report.tracking_dir");
}

}  // namespace bascule
