// SPDX-License-Identifier: Apache-2.0
// A made-up run with something in every part of the report: for the tests, and for looking at the page.
#pragma once

#include <cstdint>
#include <vector>

#include "src/answer/report.h"

namespace bascule::test {

// 400 steps with a falling, noisy loss, three evaluations and one test, memory, operations, contracts, six pictures of
// tests/data (none where the folder is absent), and captions with characters that HTML must escape.
Report sample_report();
// The same of two ranks with an average of the weights: every chart has all the lines that it may have.
Report sample_report_with_average();
// As many points as a map has at most, of a split with four times the rows; each caption ends with these words.
EmbeddingMap largest_map(const std::string& caption_end);

}  // namespace bascule::test
