// SPDX-License-Identifier: Apache-2.0
// A run's state, figures and settings, from the files in its folder. Every file but bascule.json may be absent, and a
// file that is being written may end with half a line. Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/answer/runs_page.h"
#include "src/logs/named_text.h"

namespace bascule {

// Canonical TOML as pairs: {"training.seed", "42"}. The tables of [[training.groups]] are one value; without any it is
// "[]" where the run has a table [training].
std::vector<NamedText> settings_of_text(const std::string& toml);

// The run in `folder`, with all of its settings, paths absolute, and before them "kind": "training" or "drawing".
// Throws Error where bascule.json cannot be read.
ListedRun read_listed_run(const std::string& folder);

}  // namespace bascule
