// SPDX-License-Identifier: Apache-2.0
// Porter's stemmer of English words, with the changes that NLTK makes by default: PorterStemmer of nltk 3.10 in its
// mode NLTK_EXTENSIONS. Snowball's "porter" and Porter's own program give other stems.
#pragma once

#include <cstddef>

namespace bascule {

// Writes the stem of a word over it and returns its length: 1 .. length, or 0 for no letters. The word is made of a-z
// and 0-9; digits count as consonants. Takes time in proportion to the length, which has no limit. Allocates nothing.
//
// Source: Porter 1980, An algorithm for suffix stripping; nltk/stem/porter.py.
std::size_t porter_stem(char* word, std::size_t length) noexcept;

}  // namespace bascule
