// SPDX-License-Identifier: Apache-2.0
// The runs below folders, read from their files and compared.
#pragma once

#include <string>
#include <vector>

#include "src/answer/result_pages.h"
#include "src/base/readable.h"

namespace bascule {

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
