// SPDX-License-Identifier: Apache-2.0
// bascule.json of an output folder: says that the folder is ours, what made it, and whether it is finished.
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/json/value.h"
#include "src/records/named_text.h"
#include "src/settings/settings.h"

namespace bascule {

struct RunMarker {
  bool exists = false;
  bool finished = false;
  bool trained = false;  // the finished run trained; else it only evaluated
  bool draws = false;    // the run draws pictures
  std::string settings_digest;
  std::string settings;  // as TOML
  // {"data.train_file", "\"/data/rows.jsonl\""}: of the settings that have relative paths, their absolute values.
  std::vector<NamedText> absolute_paths;
  std::int64_t global_step = 0;
  bool replaces_weights = false;      // of a finished run: weights of another update were being written over its own
  std::int64_t not_finite_at = 0;     // the update at which values were not finite, which ended the run; 0: none
  std::vector<NamedText> drawn_from;  // of a run that draws: digests of what it reads, by name
};

// How far a run is.
struct RunState {
  bool finished = false;
  std::int64_t global_step = 0;
  std::int64_t not_finite_at = 0;
};

// Throws Error kData where the file is damaged.
RunMarker read_run_marker(const std::string& output_dir);
// The settings that the run in the folder was made with; words: of the model of now. Throws Error where another program
// wrote other keys.
Settings marker_settings(const RunMarker& marker, const ModelWords& words);
// record: of a finished run, or null. drawn_from: as in RunMarker.
void write_run_marker(const Settings& settings, const RunState& state, const std::vector<HistoryEntry>& history,
                      const std::vector<NamedText>& provenance, const Json& record = Json(),
                      const std::vector<NamedText>& drawn_from = {});

// A finished run is about to get the weights of another update: until write_run_marker() the folder holds weights of
// either, or some of both. Throws Error.
void mark_weights_replaced(const std::string& output_dir);

}  // namespace bascule
