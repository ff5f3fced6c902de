// SPDX-License-Identifier: Apache-2.0
// The tokens that may not follow a sequence.
#pragma once

#include <cstdint>

#include "src/base/span.h"
#include "src/generate/search_options.h"

namespace bascule {

// ids: the sequence, its start token included. Banned are
// - the end tokens, while the sequence is shorter than min_length;
// - tokens that would complete an n-gram, n = no_repeat_ngram_size, which the sequence already has.
// banned: room for ids.size() + end_ids.size(); a token can stand there twice. Returns how many were written.
// Source: MinLengthLogitsProcessor and NoRepeatNGramLogitsProcessor of Transformers 5.23.
std::int64_t list_banned_tokens(std::int32_t* banned, Span<const std::int32_t> ids,
                                const SearchOptions& options) noexcept;

}  // namespace bascule
