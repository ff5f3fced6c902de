// SPDX-License-Identifier: Apache-2.0
// RoBERTa's byte-level BPE, and the pieces into which it cuts a text.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// How byte-level BPE cuts text before it merges: GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// and CLIP's, which leaves white space out,
//   <\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+

// One past the last byte of the piece that begins at `place`. text is UTF-8, place < text.size() the start of a
// character; the pattern sees nothing outside text. A piece has at least one byte.
std::size_t piece_end(std::string_view text, std::size_t place) noexcept;

// The same by CLIP's pattern. No white space begins at `place`.
std::size_t clip_piece_end(std::string_view text, std::size_t place) noexcept;

// The place after the white space that begins at `place`, and the place where the white space that ends at `place`
// begins.
std::size_t skip_space(std::string_view text, std::size_t place) noexcept;
std::size_t skip_space_back(std::string_view text, std::size_t place) noexcept;

// RoBERTa's byte-level BPE, as Transformers' RobertaTokenizer with tokenizers 0.23. Text is not normalised; special
// tokens written in the text are taken as such. Before the seal; throws Error (kData).

// tokenizer.json, or vocab.json and merges.txt, with special_tokens_map.json, tokenizer_config.json and
// added_tokens.json where they exist. tokenizer.json wins where both are there.
std::unique_ptr<const Tokenizer> load_byte_level_bpe(const TokenizerFolder& folder);
// Each token as the files write it, in the byte-level alphabet.
std::vector<std::string> byte_level_bpe_texts(const TokenizerFolder& folder);

}  // namespace bascule
