// SPDX-License-Identifier: Apache-2.0
// The options of a search for tokens, with the meaning that they have in Transformers' generation_config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "src/settings/settings.h"

namespace bascule {

struct SearchOptions {
  std::int64_t vocabulary_size = 0;
  std::int64_t num_beams = 1;   // 1: greedy search
  std::int64_t max_length = 0;  // ids of a row, its start token among them; >= 1
  // A row of fewer ids than these, its start token among them, cannot end. min_new_tokens n is min_length n + 1.
  std::int64_t min_length = 0;
  double length_penalty = 1.0;  // a finished sequence's score is its log p / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::kNo;
  std::int64_t no_repeat_ngram_size = 0;  // no row has the same n-gram twice; 0: it may
  std::int32_t start_id = 0;
  std::int32_t pad_id = 0;            // for whoever lays results out in rows: the search itself pads nothing
  std::vector<std::int32_t> end_ids;  // at least one

  // How many of a sample's best continuations beam search looks at: even if every end token is among them for every
  // beam, num_beams of them go on.
  std::int64_t candidates() const { return (1 + static_cast<std::int64_t>(end_ids.size())) * num_beams; }
};

}  // namespace bascule
