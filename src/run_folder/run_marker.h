// SPDX-License-Identifier: Apache-2.0
// bascule.json of an output folder: says that the folder is ours, what made it, and whether it is finished.
#pragma once

#include <string>
#include <vector>

#include "src/base/readable.h"
#include "src/checkpoint/checkpoint.h"
#include "src/json/value.h"
#include "src/settings/settings.h"

namespace bascule {

// The files of a finished run, evaluated again, that may be partly of then and partly of now.
enum class Replaced { kNothing, kResults, kWeights };  // weights: and results

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
  Replaced replaced = Replaced::kNothing;  // of a finished run: what another evaluation was writing over
  std::int64_t not_finite_at = 0;          // the update at which values were not finite, which ended the run; 0: none
  std::vector<NamedText> drawn_from;       // of a run that draws: digests of what it reads, by name

  // Finished, and with results and weights of one evaluation.
  bool is_whole() const { return finished && replaced == Replaced::kNothing; }
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

// By rank 0, before a finished run's results, or its weights too, are written over: until write_run_marker() the run is
// not finished. Throws Error.
void mark_replaced(const std::string& output_dir, Replaced what);

}  // namespace bascule
