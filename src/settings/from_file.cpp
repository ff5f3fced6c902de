// SPDX-License-Identifier: Apache-2.0
#include "src/settings/run_settings.h"

namespace bascule {

const SealedSettings* sealed_settings() { return nullptr; }

Settings settings_of_run(const std::string& file, const FindModelWords& find) { return read_settings(file, find); }

}  // namespace bascule
