// SPDX-License-Identifier: Apache-2.0
// The manual pages bascule(1) and bascule.toml(5), in the macros of man(7), from the tables that the program itself
// works with.
#pragma once

#include <string>

#include "src/commands/command_reference.h"

namespace bascule {

// date: of the page, "2026-11-26"; may be empty.
std::string program_manual(const ProgramReference& program, const std::string& date);
std::string settings_manual(const std::string& date);

}  // namespace bascule
