// SPDX-License-Identifier: Apache-2.0
// The program's exit codes, as the manual page and the first page list them.
#pragma once

#include <string>
#include <vector>

namespace bascule {

struct ExitCode {
  std::string codes;  // "3"; several with one meaning: "129, 130, 143"
  std::string meaning;
};

std::vector<ExitCode> exit_codes();

}  // namespace bascule
