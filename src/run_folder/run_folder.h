// SPDX-License-Identifier: Apache-2.0
// The output folder of a run: whether it can be this run's, who works in it, and where the run goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/isa.h"
#include "src/answer/result_pages.h"
#include "src/base/descriptor.h"
#include "src/base/readable.h"
#include "src/checkpoint/checkpoint.h"
#include "src/record/recorded_run.h"
#include "src/settings/settings.h"

namespace bascule {

enum class FolderUser {
  kProcess,   // a run of one process, or rank 0 of ranks that have no launcher of ours
  kLauncher,  // shares the folder with the rank 0 that it starts
  kRank,      // that rank 0, which may live a little longer than its launcher
};

// The run's folder, created where it is missing. One run at a time uses it; the lock is released with its last process.
// Waits a few seconds for another run that is ending: it may be finished by then. Removes what a launcher that was
// killed, and files that were not written to their end, have left.
class FolderLock {
 public:
  FolderLock(const RunSettings& run, const SettingsOrigin& origin, FolderUser user);
  // A process that inherits it holds the lock until it ends.
  int descriptor() const { return file_.number(); }

 private:
  bool lock_alone();

  Descriptor file_;
};

// Whether a process works on the run in this folder. False where there is no such folder. Throws Error{kData} where it
// may not be opened. Takes the lock for an instant, for which a FolderLock waits.
bool is_in_use(const std::string& output_dir);

// Whether the folder can be this run's; throws Error where it cannot. True: the run in it is finished already. Changes
// nothing, but for what a killed process has left in the folder of a finished run.
bool is_finished_and_clear(const Settings& settings);

// How to bring back result files that somebody has removed from the folder of a finished run.
std::string to_write_results_again(const RunSettings& run, bool trains);

// Removes what a process that was killed, or had no room on the disk, has left in the folder of a finished run.
void clear_finished(const RunSettings& run, const SettingsOrigin& origin);

// Makes the folder known as ours, if it is not yet, before anything else is written into it.
void mark_folder(const Settings& settings);

// By rank 0, before anything is recorded: the checkpoint to go on from, every byte of which was read; nothing if the
// run begins. Says what is lost by it.
std::optional<ResumePoint> checkpoint_to_go_on_from(const Settings& settings);

// By rank 0, before anything is sealed: says what the run is, and writes the marker. That of a finished run stays: the
// start may still be refused.
void prepare_folder(const RecordedRun& run, Isa isa);
// By rank 0, when all ranks are sealed, before the first file of the run changes: a finished run that goes on is no
// longer marked as finished.
void mark_begun(const RecordedRun& run, Isa isa);

// A finished training run that is asked for other evaluations alone: its weights are those of the finished folder,
// nothing is trained, and no checkpoint changes. Where the last checkpoint does not say what the folder was finished
// with - another one is the best and the only one that is kept, or evaluations changed later - `last_state/` does: a
// checkpoint's state and records without weights and moments.

// The state in `last_state/` of a finished run that is asked for no more training; nothing where there is none. Throws
// Error{kData} where it cannot be read.
std::optional<ResumePoint> last_state_of(const Settings& settings);
// The same, as another rank has found it. Throws Error{kData}.
ResumePoint read_last_state(const RunSettings& run, std::int64_t step);
bool is_last_state(const ResumePoint& point);

// After recording: whether the run only evaluates a finished one again; then resume->finished says with which
// weights. Throws Error{kSettings} where that would train again what is finished, or where the weights were not kept.
void plan_evaluation_again(const Settings& settings, ResumeState* resume);

// Throws Error{kData} where the weights that a finished run left are missing or damaged: what is not there is not
// finished. Reads their headers alone.
void check_finished_model(const Settings& settings, std::int64_t global_step);

// By rank 0, when training goes on.
void remove_last_state(const std::string& output_dir);

// The rules of a drawing run's output folder: whose it is, which settings may differ from those of the pictures in it,
// and how it is emptied. Before the seal; throws Error.

// That the folder is free, or holds a drawing run whose pictures these settings would draw; with draw.resume = "never",
// that it holds a drawing run. A folder without a picture may be of any settings. Throws Error kSettings.
void check_draw_folder(const Settings& settings);

// That no folder lies where one of so many pictures will be written. Throws Error kSettings that names it.
void check_picture_places(const Settings& settings, std::size_t pictures);

// Removes images.jsonl, and then the pictures that it and `names` name: so that a kill leaves no line of a picture of
// other settings. Other files stay. Throws Error kDisk.
void remove_pictures(const std::string& folder, const std::vector<std::string>& names);

// A run's state, figures and settings, from the files in its folder. Every file but bascule.json may be absent, and a
// file that is being written may end with half a line. Before the seal.

// Canonical TOML as pairs: {"training.seed", "42"}. The tables of [[training.groups]] are one value; without any it is
// "[]" where the run has a table [training].
std::vector<NamedText> settings_of_text(const std::string& toml);

// The run in `folder`, with all of its settings, paths absolute, and before them "kind": "training" or "drawing".
// Throws Error where bascule.json cannot be read.
ListedRun read_listed_run(const std::string& folder);

// The runs below folders: how far each is, its best evaluation, its curves, and the settings in which they differ. From
// the files that a run keeps in its folder; a run that is at work may be listed. Nothing is changed. Before the seal.

// In the order of their paths, each run once, with those settings that differ between the runs listed. A folder of
// a run is not searched for others, and links to folders below the named ones are not followed. notes: a line for each
// run and folder that could not be read, which is left out. Throws Error{kData} where one of the named folders cannot
// be read.
std::vector<ListedRun> list_runs(const std::vector<std::string>& folders, std::vector<std::string>* notes);

// {"runs": [...]}, as `bascule list --json` prints it.
std::string runs_json(const std::vector<ListedRun>& runs);

}  // namespace bascule
