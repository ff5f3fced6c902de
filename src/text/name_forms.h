// SPDX-License-Identifier: Apache-2.0
// One name in two of Unicode's forms looks alike and is two files: "é" as one character, or as "e" and an accent, as
// other systems and archives write it. For messages before the seal.
#pragma once

#include <string>

namespace bascule {

// What follows "No such file or directory" where names that are equal in normalisation form C lead to a file or folder;
// else "".
std::string note_on_other_form(const std::string& path);
inline constexpr char kOtherFormAdvice[] = "rename the file, or copy its name from a list of the folder";

}  // namespace bascule
