// SPDX-License-Identifier: Apache-2.0
// The whole command line of the program: every command, `help`, --version, and how help looks. main() parses with it;
// the manual page and the completions are written from it.
#pragma once

#include <CLI/CLI.hpp>

#include "src/commands/commands.h"

namespace bascule {

// Both outlive the parsing.
void describe_program(CLI::App& app, Chosen* chosen);

}  // namespace bascule
