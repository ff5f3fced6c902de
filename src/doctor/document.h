// SPDX-License-Identifier: Apache-2.0
// A diagnosis as the JSON document that `bascule doctor --json` prints, and as the lines of `--list`. README.md of this
// folder lists the keys.
#pragma once

#include <string>

#include "src/doctor/diagnosis.h"

namespace bascule {

std::string diagnosis_json(const Diagnosis& diagnosis);

// A line for each example of each finding: all rows, where the diagnosis was made with room for them.
std::string diagnosis_list(const Diagnosis& diagnosis);
// Whether a file is such a list: nothing else is written over.
bool is_diagnosis_list(const std::string& file);

}  // namespace bascule
