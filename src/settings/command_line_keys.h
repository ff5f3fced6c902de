// SPDX-License-Identifier: Apache-2.0
// Where settings come from: a file, the command line, the program itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

// Keys of the settings on the command line: `bascule run FILE training.seed=7 data.train_file=x.jsonl`.
//
// - The value is TOML; text that is not valid TOML is taken as a string, with its spaces. Ranges and types are those of
//   the file.
// - A key counts as if it stood in the file in place of the file's own. [[training.groups]] are given as one list.
// - training.max_steps and num_train_epochs, of which one is set: each takes the place of the file's other one, too.
// - A relative path starts from the current folder, and is kept absolute. A path that has no such form is refused:
//   absolute_paths.h.
//
// Before the seal.

// The place of such a key in messages and in SettingsOrigin::where.
inline constexpr char kCommandLinePlace[] = "command line";

// As those of settings.h. Throws Error{kSettings} also for a key that is given twice.
Settings read_settings(const std::string& path, const std::vector<std::string>& keys, const FindModelWords& find);
Settings read_settings_text(std::string_view text, const std::string& name, const std::string& directory,
                            const std::vector<std::string>& keys, const FindModelWords& find);

// The keys of these settings that stood on the command line, for another process that reads the same file: values are
// canonical, and paths absolute. In the order of the reference.
std::vector<std::string> command_line_keys(const Settings& settings);

// The word of the option --precision, as model.precision has it in a file.

// Throws Error kSettings where it is neither "float32" nor "bf16".
Precision read_number_type(const std::string& word);

// Where the settings of a run come from: a TOML file that the command line names, or the program itself, into which
// -Dstatic_config built one. The linker decides: a program has from_file.cpp or a source that `seal_settings` wrote.
// Before the seal.

struct SealedSettings {
  const char* file;    // as it was named when the program was built
  const char* digest;  // settings_digest()
  const char* sha256;  // of `toml`
  const char* toml;    // print_settings()
  const char* places;  // of what the file had: lines "data.ring_slots :LINE:COLUMN"
};

// Null: this program reads settings files.
const SealedSettings* sealed_settings();

// The settings of a command line: a settings file, and keys in place of the file's (command_line_keys.h). Both empty in
// a program with sealed settings, which takes none.
struct SettingsSource {
  std::string file;
  std::vector<std::string> keys;
};

// Throws Error{kSettings}.
Settings settings_of_run(const SettingsSource& source, const FindModelWords& find);
// The same for `bascule serve`, or the defaults for a model's folder, with `keys`. Sealed settings are those of the
// run.
Settings settings_of_service(const std::string& folder_or_file, const std::vector<std::string>& keys,
                             const FindModelWords& find);

// That source: of settings that were read from a file, which is called `name`.
std::string sealed_source(const Settings& settings, const std::string& name);
// For it. Relative paths start from the folder above the one that holds the program, and ".." does not lead out of it:
// bin/bascule of a tree finds the data that is in the tree, wherever that is.
Settings read_sealed_settings(const SealedSettings& sealed, const FindModelWords& find);

}  // namespace bascule
