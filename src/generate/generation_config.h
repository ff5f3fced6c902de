// SPDX-License-Identifier: Apache-2.0
// The options that a Hugging Face folder has for generation: those of generation_config.json alone where there is one,
// else the old keys of config.json. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/generate/token_search.h"
#include "src/json/value.h"

namespace bascule {

struct GenerationConfig {
  SearchOptions options;           // with the lengths that new_tokens() and the folder's own make
  std::vector<std::string> notes;  // for people: what is unlike Transformers, or missing in the file
};

// vocabulary_size: of the model. Throws Error kData naming the file and the key, also for one that asks for what is not
// there: sampling, penalties, forced and suppressed tokens, groups of beams.
GenerationConfig read_generation_config(const std::string& folder, std::int64_t vocabulary_size);

// The ids of its tokens alone: start, padding and ends.
SearchOptions read_generation_ids(const std::string& folder, std::int64_t vocabulary_size);

// The generation_config.json of a run's folder. searched: how the run wrote texts; null: it wrote none, and the
// options of the folder that it began from stay. length: max_length where neither names one.
Json generation_config_to_write(const std::string& folder, const SearchOptions* searched, std::int64_t length);

// The keys of one object with the meaning that they have in generation_config.json, over `options`: those that it does
// not have stay. where: for errors, which are kData.
void read_search_options(const Json& object, const std::string& where, SearchOptions* options);

// Throws Error kData naming `where`: more beams than the vocabulary has ids, a min_length above max_length, ids outside
// the vocabulary. Transformers takes the first two, and gives rows that nobody asked for.
void check_search_options(const SearchOptions& options, const std::string& where);

}  // namespace bascule
