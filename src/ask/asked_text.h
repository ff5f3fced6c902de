// SPDX-License-Identifier: Apache-2.0
// A text that a model is asked about, and its tokens as the model reads them. Before the seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/text/tokenizer.h"

namespace bascule {

struct AskedText {
  std::string first;
  std::optional<std::string> second;  // of a pair
};

// Says of a text that names a file that the file is not read.
void say_if_file(const std::string& text);

struct EncodedText {
  std::vector<std::int32_t> ids;
  std::size_t second_begin = 0;     // of the ids; of one text: all of them
  std::vector<PlacedToken> placed;  // where tokens have tags: those that are not special
};

// Both: at most `longest` tokens; says on stderr when it cuts the text. where: the text in messages. Throws Error kData
// where it is not UTF-8.
EncodedText encode_text(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                        const std::string& where);
// With the places of its tokens; of one text alone.
EncodedText encode_places(const Tokenizer& tokenizer, const AskedText& asked, std::int64_t longest,
                          const std::string& where);

}  // namespace bascule
