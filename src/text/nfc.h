// SPDX-License-Identifier: Apache-2.0
// Normalisation form C, and names that have two Unicode forms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bascule {

// Unicode's normalisation form C (UAX 15, definitions D108 and D117 of the Unicode standard): characters are
// decomposed, marks put in order, and composed again.

// The most code points while a text of so many bytes is decomposed: U+0390, of two bytes, has three.
constexpr std::size_t nfc_code_points(std::size_t text_bytes) { return text_bytes + text_bytes / 2; }

// Writes the code points of the text's normalisation form C to out and returns their number. text is UTF-8; out has
// room for nfc_code_points(text.size()), all of which is used on the way. O(n log n). Allocates nothing.
std::size_t nfc(std::string_view text, std::uint64_t* out) noexcept;

// One name in two of Unicode's forms looks alike and is two files: "é" as one character, or as "e" and an accent, as
// other systems and archives write it. For messages before the seal.

// The text after "No such file or directory" where names that are equal in normalisation form C lead to a file or
// folder; else "".
std::string note_on_other_form(const std::string& path);
inline constexpr char kOtherFormAdvice[] = "rename the file, or copy its name from a list of the folder";

}  // namespace bascule
