// SPDX-License-Identifier: Apache-2.0
// Whether a run may go on, by its settings and by the content of its files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/digest.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/tensor_source.h"
#include "src/record/recorded_run.h"
#include "src/settings/resume_rules.h"

namespace bascule {

// The files that a run reads, told by their content, so that a run may go on when they have moved and may not when they
// are others: digests that a checkpoint keeps, and their check at a resume. Before the seal.

// Adds a tensor's values, as float32.
void add_values(const TensorSource& source, const StoredTensor& tensor, Digest* digest);
// The digest of the weights in the model folder, under this name: names, shapes and values. Reads all of them.
inline constexpr char kModelWeights[] = "model.weights";
std::string weights_digest(const TensorSource& source);
// One digest for each split that the run reads.
std::vector<NamedText> data_digests(const RunData& data);

// Throws Error where the model folder's files are not those of resume->point: kSettings naming both paths where the
// path was changed, else kData. The weights are read where the folder is another one.
void check_model_files(const ModelSettings& model, const SettingsOrigin& origin, const OpenedModel& opened,
                       ResumeState* resume);
// The same for the training data. Other evaluation data is a change of the history.
void check_data(const SettingsOrigin& origin, const RunData& data, ResumeState* resume);

// Whether a run may go on from a checkpoint with the settings, model and data of now, by the rules of
// src/settings/resume_rules.h; what was changed becomes part of the run's history. Nothing is written here. Before the
// seal.

// The canonical value of a key that changes results, in the checkpoint and now; "not set" where there is none.
std::string value_then(const ResumePoint& point, const std::string& key);
std::string value_now(const Settings& settings, const std::string& key);

// Every key whose value is not that of the checkpoint.
std::vector<SettingChange> changes_since(const ResumePoint& point, const Settings& now);

// As far as the settings alone tell: Error kSettings naming the first key that may not change, with both values.
// not_finite_at: the update at which the run met values that are not finite; 0: none.
void check_settings(const ResumePoint& point, const Settings& now, std::int64_t not_finite_at);

// The length of the run and of its schedule, once the rows are known: neither may shrink. A longer run is noted in
// resume->notes. Error kSettings naming the key, with both values.
void check_length(const Settings& settings, const Pace& pace, ResumeState* resume);

// The update with which `bascule stop` ended the run of output_dir, whose checkpoint this is. 0: it did not, or the
// checkpoint is another run's.
std::int64_t ended_at(const ResumePoint& point, const std::string& output_dir);

// The history that the checkpoint carries, with what was changed since.
std::vector<HistoryEntry> history_of(const ResumeState& resume);

}  // namespace bascule
