// SPDX-License-Identifier: Apache-2.0
#include "src/seal/tracking.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/base/absolute_path.h"
#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/program_file.h"
#include "src/files/durable_write.h"
#include "src/settings/resume_rules.h"
#include "src/settings/run_settings.h"

namespace bascule {
namespace {

// The quotes of a string are TOML's, not its own.
std::string shown_value(const std::string& value) {
  const bool is_plain = value.size() >= 2 && value.front() == '"' && value.back() == '"' &&
                        value.find_first_of("\\\"", 1) == value.size() - 1;
  return is_plain ? value.substr(1, value.size() - 2) : value;
}

// The settings file, or the program that has settings built in.
std::string source_of(const Settings& settings) {
  return sealed_settings() != nullptr ? program_file() : absolute_path(settings.origin.file);
}

MlflowPlace place_of(const Settings& settings) {
  const std::filesystem::path output = absolute_path(settings.run.output_dir.resolved);
  MlflowPlace place{tracking_store(settings), output.filename().string(), output.string(), {}, {}};
  for (const KeyRule& rule : resume_rules(settings)) {
    const bool is_idle =
        !settings.media_engine.simulation.is_given && rule.key.rfind("media_engine.simulation.", 0) == 0;
    if (!is_idle) place.parameters.push_back({rule.key, shown_value(rule.value)});
  }
  place.tags = {{"mlflow.source.name", source_of(settings)},
                {"mlflow.source.type", "LOCAL"},
                {kMlflowFolderTag, place.output_dir},
                {"bascule.version", BASCULE_VERSION}};
  return place;
}

template <typename Write>
auto with_advice(const Write& write) {
  try {
    return write();
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), error.problem(),
                (error.what_to_do().empty() ? "" : error.what_to_do() + ", or ") +
                    "set report.tracking_dir to a folder that the run may write to, or report.tracking = \"none\"");
  }
}

}  // namespace

std::string tracking_store(const Settings& settings) {
  const PathSetting& given = settings.report.tracking_dir;
  if (given.is_given()) return absolute_path(given.resolved);
  const std::filesystem::path output = absolute_path(settings.run.output_dir.resolved);
  return (output.parent_path() / "mlruns").string();
}

void check_tracking_store(const Settings& settings) {
  if (settings.report.tracking == Tracking::kNone) return;
  const std::string store = tracking_store(settings);
  with_advice([&] {
    make_folders(store);
    if (::access(store.c_str(), W_OK) != 0)
      throw Error(ErrorKind::kDisk, store, std::string("cannot be written: ") + std::strerror(errno));
  });
}

bool track_finished(const Settings& settings) {
  if (settings.report.tracking == Tracking::kNone) return false;
  return with_advice([&] { return MlflowRun::write_finished(place_of(settings)); });
}

MlflowRun open_tracking(const Settings& settings) {
  if (settings.report.tracking == Tracking::kNone) return {};
  return with_advice([&] { return MlflowRun::open(place_of(settings), unix_seconds()); });
}

}  // namespace bascule
