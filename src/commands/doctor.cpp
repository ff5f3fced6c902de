// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>

#include "src/base/error.h"
#include "src/bringup/profile.h"
#include "src/commands/check_outputs.h"
#include "src/doctor/doctor.h"
#include "src/doctor/finding.h"
#include "src/files/durable_write.h"
#include "src/index/data_files.h"
#include "src/pictures/picture_decoder.h"
#include "src/record/opened_model.h"
#include "src/record/run_inputs.h"
#include "src/runtime/choose_isa.h"

namespace bascule {
namespace {

// A file that is there may be a picture of data that cannot be read; a link is not written through.
void check_replaced(const char* option, const std::string& path, bool (*is_ours)(const std::string&)) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status there = fs::symlink_status(path, ignored);
  const bool may_be_replaced = fs::is_regular_file(there) && (fs::is_empty(path, ignored) || is_ours(path));
  if (!path.empty() && fs::exists(there) && !may_be_replaced)
    throw Error(ErrorKind::kSettings, option, path + " exists and was not written by `bascule doctor`",
                "choose another file, or remove it");
}

// Before any work.
void check_files(const DoctorArguments& arguments, const Settings& settings) {
  CommandReads reads = named_by_settings(arguments.settings.file, settings);
  reads.files.push_back({arguments.profile, "the profile of --profile"});
  const DataSettings& data = settings.data;
  for (const PathsSetting* paths :
       {&data.train_file, &data.evaluation_file(), &data.prediction_file(), &data.validation_queries,
        &data.validation_relevance, &data.test_queries, &data.test_relevance}) {
    if (!paths->is_given()) continue;
    const DataFiles files = find_data_files(*paths);
    for (const DataFile& file : files.manifests) reads.files.push_back({file.path, "a file of the data"});
    for (const std::string& shard : files.shards) reads.files.push_back({shard, "a file of the data"});
  }
  check_outputs({{"--html", arguments.html}, {"--list", arguments.list}}, reads);
  check_replaced("--html", arguments.html, is_diagnosis_page);
  check_replaced("--list", arguments.list, is_diagnosis_list);
}

}  // namespace

int doctor_command(const DoctorArguments& arguments) {
  const Settings settings = settings_of_run(arguments.settings, model_words);
  refuse_serving(settings);
  if (!arguments.html.empty() || !arguments.list.empty()) check_files(arguments, settings);
  refuse_unsupported(settings);
  require_products(settings.machine, settings.origin);
  if (!settings.draw.is_given) {
    (void)media_options(settings.media_engine.simulation, settings.origin, media_engine_builtin());
    check_output_is_apart(settings);
  }
  BringUp profile;
  DoctorOptions options;
  if (!arguments.profile.empty()) {
    profile = read_profile(arguments.profile);
    options.profile = &profile;
    options.profile_path = arguments.profile;
  }
  if (!arguments.list.empty()) options.most_examples = std::numeric_limits<std::size_t>::max();
  const Diagnosis diagnosis = diagnose(settings, options);
  if (!arguments.list.empty()) write_output_file(arguments.list, diagnosis_list(diagnosis));
  if (!arguments.html.empty()) write_output_file(arguments.html, diagnosis_html(diagnosis));
  std::fputs((arguments.json ? diagnosis_json(diagnosis) : diagnosis_text(diagnosis)).c_str(), stdout);
  return diagnosis.exit_code;
}

}  // namespace bascule
