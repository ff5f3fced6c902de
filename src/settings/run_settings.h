// SPDX-License-Identifier: Apache-2.0
// Where the settings of a run come from: a TOML file that the command line names, or the program itself, into which
// -Dstatic_config built one. The linker decides: a program has from_file.cpp or a source that `seal_settings` wrote
// (write_cpp.h). Before the seal.
#pragma once

#include <string>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

struct SealedSettings {
  const char* file;    // as it was named when the program was built
  const char* digest;  // settings_digest()
  const char* sha256;  // of `toml`
  const char* toml;    // print_settings()
};

// Null: this program reads settings files.
const SealedSettings* sealed_settings();

// What a command line names: a settings file, and keys in place of the file's (command_line_keys.h). Both empty in a
// program with sealed settings, which takes none.
struct SettingsSource {
  std::string file;
  std::vector<std::string> keys;
};

// Throws Error{kSettings}.
Settings settings_of_run(const SettingsSource& source, const FindModelWords& find);

// For the source that seal_settings writes: resolves the paths. Relative ones start from the folder above the one that
// holds the program, and ".." does not lead out of it: bin/bascule of a tree finds the data that is in the tree,
// wherever that is.
Settings placed_settings(Settings settings);

}  // namespace bascule
