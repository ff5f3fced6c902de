// SPDX-License-Identifier: Apache-2.0
#include "src/settings/command_line_keys.h"

namespace bascule {

const SealedSettings* sealed_settings() { return nullptr; }

Settings settings_of_run(const SettingsSource& source, const FindModelWords& find) {
  return read_settings(source.file, source.keys, find);
}

}  // namespace bascule
