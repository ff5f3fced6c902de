// SPDX-License-Identifier: Apache-2.0
// The manual pages, and the exit codes that they list.
#pragma once

#include <string>
#include <vector>

#include "src/commands/completion.h"

namespace bascule {

// The program's exit codes, as the manual page and the first page list them.

struct ExitCode {
  std::string codes;  // "3"; several with one meaning: "129, 130, 143"
  std::string meaning;
};

std::vector<ExitCode> exit_codes();

// The manual pages bascule(1) and bascule.toml(5), in the macros of man(7), from the tables that the program itself
// works with.

// date: of the page, "2026-11-26"; may be empty.
std::string program_manual(const ProgramReference& program, const std::string& date);
std::string settings_manual(const std::string& date);

}  // namespace bascule
