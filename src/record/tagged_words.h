// SPDX-License-Identifier: Apache-2.0
// Words with tags: the tags of tokens behind the first of a word, and what people are told of words. Before the seal.
#pragma once

#include <cstdint>
#include <vector>

#include "src/record/recorded_run.h"

namespace bascule {

// With data.label_all_tokens, the tag of a word's further tokens, by the word's: I-X for B-X where the model has it,
// else the same.
std::vector<std::int32_t> further_tags(const ModelInputs& model);

// Notes for each split how many words are cut off. The loader is planned.
void note_cut_words(RecordedRun* run);

}  // namespace bascule
