// SPDX-License-Identifier: Apache-2.0
// The facts of a machine as JSON, and back: for profiles and records.
#pragma once

#include <string>

#include "src/json/value.h"
#include "src/machine/machine.h"

namespace bascule {

// Every fact under its name in machine.h; unknown ones are null.
Json machine_json(const Machine& machine);
// Strict: a fact that is absent or of another type, or a name that is none of ours, is an Error (kData) that names it.
// where: the file's name.
Machine machine_from(const Json& json, const std::string& where);

}  // namespace bascule
