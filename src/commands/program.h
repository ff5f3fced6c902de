// SPDX-License-Identifier: Apache-2.0
// The whole command line of the program: every command, `help`, --version, and how help looks. main() runs what it
// names; the manual page and the completions are written from it.
#pragma once

#include "src/commands/commands.h"

namespace bascule {

// Both outlive the parsing.
void describe_program(CLI::App& app, Chosen* chosen);

// Runs the command that the command line names, and returns its exit code. Help and the version are printed here.
// Throws Error.
int run_chosen(int argc, char** argv);

}  // namespace bascule
