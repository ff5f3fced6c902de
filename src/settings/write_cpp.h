// SPDX-License-Identifier: Apache-2.0
// Settings as a C++ source for a program that reads no settings file: what command_line_keys.h declares. Before the
// seal.
#pragma once

#include <string>

#include "src/settings/settings.h"

namespace bascule {

// Assigns every key of keys.h, the words of the model and where each key was written, in a file that is called `name`.
std::string settings_as_cpp(Settings settings, const std::string& name);

}  // namespace bascule
