// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/data.h"

#include <sys/stat.h>

#include <utility>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/loader/loader_parts.h"
#include "src/run/plan_data.h"

namespace bascule {
namespace {

Settings with_bad_samples(Settings settings) {
  settings.data.on_bad_sample = OnBadSample::kSkip;
  return settings;
}

}  // namespace

OpenedData::OpenedData(const Settings& settings, std::vector<Finding>* findings)
    : stops_at_bad_samples_(settings.data.on_bad_sample == OnBadSample::kStop),
      settings_(with_bad_samples(settings)),
      run_(settings_) {
  run_.place = planned_place(settings_.distributed, settings_.origin);
  run_.opened = open_model_of(settings_.model, settings_.data, settings_.training, settings_.origin);
  // A simulated device decodes to the same pixels.
  set_up_loader(&run_, media_engine_host());
  HeldOut held_out(settings_, run_.data.loader.cache);
  for (const Split split : splits_read(settings_.training)) {
    try {
      open_split(&run_, split, &held_out);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      findings->push_back(
          {Level::kFails, "unreadable_data",
           std::string(split_name(split)) + " cannot be read: " + error.where() + ": " + error.problem(),
           error.what_to_do(), 1});
    }
  }
}

bool OpenedData::has_picture(const std::string& file) const {
  struct stat own = {}, other = {};
  if (!reads_pictures(run_.data.loader) || stat(file.c_str(), &own) != 0) return false;
  for (const RecordedSplit& split : run_.data.splits) {
    const Manifest& manifest = *split.manifest;
    for (std::int64_t picture = 0; picture < manifest.pictures(); ++picture) {
      if (stat(manifest.picture_location(picture).c_str(), &other) == 0 && own.st_dev == other.st_dev &&
          own.st_ino == other.st_ino)
        return true;
    }
  }
  return false;
}

std::string OpenedData::where(std::size_t split, std::int64_t row) const {
  return shown_path(run_.data.splits[split].manifest->where(row));
}

std::string advice_for_shared(const OpenedData& opened, std::size_t in) {
  const char* const why = opened.data().splits[in].split == Split::kTrain
                              ? "figures of samples that were trained on say little"
                          : opened.settings().training.load_best_model_at_end
                              ? "the best model is chosen by the same samples that judge it"
                              : "settings that are chosen by one are judged by the same samples in the other";
  return std::string("remove them from one of the two: ") + why;
}

}  // namespace bascule
