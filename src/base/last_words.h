// SPDX-License-Identifier: Apache-2.0
// Last words: further output where a failed check (check.h) ends the program.
#pragma once

namespace bascule {

// Called once with what is wrong, after the line on standard error and before the program ends.
using LastWords = void (*)(const char* what);
// Null: nothing more is said.
void set_last_words(LastWords words) noexcept;

}  // namespace bascule
