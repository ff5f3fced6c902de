// SPDX-License-Identifier: Apache-2.0
// Completion of the command line in bash and zsh: commands, options, closed lists of values, and files where an option
// takes a path.
#pragma once

#include <string>

#include "src/commands/command_reference.h"

namespace bascule {

std::string bash_completion(const ProgramReference& program);
std::string zsh_completion(const ProgramReference& program);

}  // namespace bascule
