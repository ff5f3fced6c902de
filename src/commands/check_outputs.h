// SPDX-License-Identifier: Apache-2.0
// Checks of files before a command writes or trusts any.
#pragma once

#include <string>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

// Keeps a command from writing over what it reads, and two of its outputs from one file.

// A file that an option names: to be written, or, as `what` says to people, read.
struct OutputOption {
  const char* option;
  std::string path;  // "": not given
};
struct ReadFile {
  std::string path;
  const char* what;  // "one of the pictures"
};

struct CommandReads {
  std::vector<ReadFile> files;
  // Folders of models and runs: no output replaces what Bascule itself reads or writes there, but for a search's page.
  std::vector<std::string> folders;
  std::string pipeline;  // a folder into which nothing is written, however deep; "": none
};

// The files read for a run before its data: `settings_file` and the files that the settings name.
CommandReads named_by_settings(const std::string& settings_file, const Settings& settings);

// Whether one of them is a file already: only then need the pictures of the data be compared with it.
bool is_any_there(const std::vector<OutputOption>& outputs);

// Compares files, not their names: a link leads to its file. Throws Error kSettings.
void check_outputs(const std::vector<OutputOption>& outputs, const CommandReads& reads);

// Whether the files beside a program with sealed settings are those that it was shipped with. Before the seal.

// Reads SHA256SUMS of the folder (as sha256sum writes it) and every file that it lists; nothing if there is none.
// Throws Error kNotAsRecorded for the first file that differs or is missing, kData for a list of another form.
void check_tree(const std::string& folder);

}  // namespace bascule
