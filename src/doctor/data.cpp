// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/data.h"

#include <algorithm>

#include "firmware_shims/media_engine.h"
#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/index/manifest_builder.h"
#include "src/loader/loader_parts.h"
#include "src/record/plan_data.h"

namespace bascule {
namespace {

Settings with_bad_samples(Settings settings) {
  settings.data.on_bad_sample = OnBadSample::kSkip;
  return settings;
}

// Where rows are refused for several reasons, each example says what to do.
Finding finding_of(Split split, const RefusedRows& refused) {
  const std::string& advice = refused.errors.front().what_to_do();
  const bool is_one = std::all_of(refused.errors.begin(), refused.errors.end(),
                                  [&](const Error& error) { return error.what_to_do() == advice; });
  Finding finding{Level::kFails, "refused_rows",
                  std::string(split_name(split)) + ": " + counted(refused.count, "row") + " cannot be read, and " +
                      verb_of(refused.count) + " left out of the other checks",
                  is_one ? advice : "correct each of them", refused.count};
  for (const Error& error : refused.errors) {
    const bool has_own = !is_one && !error.what_to_do().empty();
    finding.examples.push_back(
        {error.where() + ": " + error.problem() + (has_own ? "; " + error.what_to_do() : ""), {}});
  }
  return finding;
}

Finding finding_of(Split split, const UnreadPictures& unread) {
  return {Level::kWarning, "unread_pictures", std::string(split_name(split)) + ": " + unread.text(), unread.what_to_do,
          unread.count};
}

Finding unreadable(Split split, const Error& error) {
  return {Level::kFails, "unreadable_data",
          std::string(split_name(split)) + " cannot be read: " + error.where() + ": " + error.problem(),
          error.what_to_do(), 1};
}

}  // namespace

OpenedData::OpenedData(const Settings& settings, std::vector<Finding>* findings, std::size_t most_examples)
    : most_examples_(most_examples),
      stops_at_bad_samples_(settings.data.on_bad_sample == OnBadSample::kStop),
      settings_(with_bad_samples(settings)),
      run_(settings_) {
  run_.place = planned_place(settings_.distributed, settings_.origin);
  run_.opened = open_model_of(settings_.model, settings_.data, settings_.training, settings_.origin);
  // A simulated device decodes to the same pixels.
  set_up_loader(&run_, media_engine_host());
  HeldOut held_out(settings_, run_.data.loader.cache);
  for (const Split split : splits_read(settings_.training)) {
    RefusedRows refused;
    refused.most = most_examples;
    run_.data.refused = &refused;
    try {
      open_split(&run_, split, &held_out);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kData) {
        findings->push_back(unreadable(split, error));
        refused.count = 0;  // where no row is left the error is that of the first
      } else if (refused.count == 0) {
        throw;  // else too few rows may be left to divide
      }
    }
    // Rows of the training file, of which validation is a part, are told once.
    const bool is_told = settings_.training.do_train && split == Split::kValidation && held_out.divides(split);
    if (refused.count > 0 && !is_told) findings->push_back(finding_of(split, refused));
    const RecordedSplit* const opened = run_.data.find(split);
    if (opened != nullptr && opened->manifest->unread().count > 0 && !is_told)
      findings->push_back(finding_of(split, opened->manifest->unread()));
    run_.data.refused = nullptr;
  }
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
