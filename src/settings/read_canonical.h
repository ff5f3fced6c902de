// SPDX-License-Identifier: Apache-2.0
// Canonical TOML, which print_settings() wrote, back to settings. Every program reads it, those with sealed settings
// too: it needs no TOML library. Before the seal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

// A line of canonical TOML. Views into the text.
struct CanonicalLine {
  enum class Kind { kTable, kGroup, kValue, kOther };  // "[training]", "[[training.groups]]", "seed = 42"
  Kind kind;
  int number;  // of the line, from 1
  std::string_view text;
  std::string_view table;        // that it begins, or stands in
  std::string_view name, value;  // of kValue
};

// All lines but empty ones.
std::vector<CanonicalLine> canonical_lines(std::string_view text);

// Values are not checked against their ranges, paths are not resolved. A key that an older program did not have gets
// its default. name: stands in messages for the text. Throws Error{kSettings} where a line is not canonical or names an
// unknown key.
Settings read_canonical_settings(std::string_view text, const std::string& name, const ModelWords& words);

}  // namespace bascule
