// SPDX-License-Identifier: Apache-2.0
// Canonical TOML, which print_settings() wrote, back to settings. Every program reads it, those with sealed settings
// too: it needs no TOML library. Before the seal.
#pragma once

#include <string>
#include <string_view>

#include "src/settings/settings.h"

namespace bascule {

// Values are not checked against their ranges, paths are not resolved. A key that an older program did not have gets
// its default. name: stands in messages for the text. Throws Error{kSettings} where a line is not canonical or names an
// unknown key.
Settings read_canonical_settings(std::string_view text, const std::string& name, const ModelWords& words);

}  // namespace bascule
