// SPDX-License-Identifier: Apache-2.0
// A diagnosis as a page: `bascule doctor --html`. One file that loads nothing; pictures of examples are in it, scaled
// down.
#pragma once

#include <string>

#include "src/doctor/diagnosis.h"

namespace bascule {

// Whether a file is such a page: nothing else is written over.
bool is_diagnosis_page(const std::string& file);

// Reads the pictures of examples; one that cannot be decoded has none.
std::string diagnosis_html(const Diagnosis& diagnosis);

}  // namespace bascule
