// SPDX-License-Identifier: Apache-2.0
// A diagnosis as a JSON document, as text and as a page.
#pragma once

#include <string>
#include <vector>

#include "src/answer/table.h"
#include "src/doctor/finding.h"

namespace bascule {

// A diagnosis as the JSON document that `bascule doctor --json` prints, and as the lines of `--list`. README.md of this
// folder lists the keys.

std::string diagnosis_json(const Diagnosis& diagnosis);

// A line for each example of each finding: all rows, where the diagnosis was made with room for them.
std::string diagnosis_list(const Diagnosis& diagnosis);
// Whether a file is such a list: nothing else is written over.
bool is_diagnosis_list(const std::string& file);

// A diagnosis as text, and the lines that the page has too.

// Of a split and of the training.
std::vector<NamedText> lines_of(const SplitFigures& split);
std::vector<NamedText> lines_of(const Diagnosis& diagnosis);
// How many texts of the split are how long, and which of them are cut.
Table lengths_of(const TextFigures& figures, const SplitFigures& split);
// "0 would stop training, 2 warnings, 5 notes"
std::string verdict_of(const Diagnosis& diagnosis);

std::string diagnosis_text(const Diagnosis& diagnosis);

// A diagnosis as a page: `bascule doctor --html`. One file that loads nothing; pictures of examples are in it, scaled
// down.

// Whether a file is such a page: nothing else is written over.
bool is_diagnosis_page(const std::string& file);

// Reads the pictures of examples; one that cannot be decoded has none.
std::string diagnosis_html(const Diagnosis& diagnosis);

}  // namespace bascule
