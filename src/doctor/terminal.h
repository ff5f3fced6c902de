// SPDX-License-Identifier: Apache-2.0
// A diagnosis as text, and the lines that the page has too.
#pragma once

#include <string>
#include <vector>

#include "src/doctor/diagnosis.h"

namespace bascule {

// Name and value, of a split and of the training.
struct NamedLine {
  std::string name, value;
};
std::vector<NamedLine> lines_of(const SplitFigures& split);
std::vector<NamedLine> lines_of(const Diagnosis& diagnosis);
// "0 would stop training, 2 warnings, 5 notes"
std::string verdict_of(const Diagnosis& diagnosis);

std::string diagnosis_text(const Diagnosis& diagnosis);

}  // namespace bascule
