// SPDX-License-Identifier: Apache-2.0
// A diagnosis as the JSON document that `bascule doctor --json` prints. README.md of this folder lists the keys.
#pragma once

#include <string>

#include "src/doctor/diagnosis.h"

namespace bascule {

std::string diagnosis_json(const Diagnosis& diagnosis);

}  // namespace bascule
