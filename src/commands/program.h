// SPDX-License-Identifier: Apache-2.0
// The whole command line of the program, and how its help looks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/commands/commands.h"

namespace bascule {

// How help looks: lines of at most 80 columns.

constexpr std::size_t kHelpColumns = 80;

// Breaks long lines between words. Continuation lines are indented to the last column of the line: the one after two
// spaces or more.
std::string wrapped(std::string_view text);

// The whole command line of the program: every command, `help`, --version, and how help looks. main() runs what it
// names; the manual page and the completions are written from it.

// Both outlive the parsing.
void describe_program(CLI::App& app, Chosen* chosen);

// Runs the command that the command line names, and returns its exit code. Help and the version are printed here.
// Throws Error.
int run_chosen(int argc, char** argv);

}  // namespace bascule
