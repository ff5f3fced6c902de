// SPDX-License-Identifier: Apache-2.0
// How byte-level BPE cuts text before it merges: GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// and CLIP's, which leaves white space out,
//   <\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+
#pragma once

#include <cstddef>
#include <string_view>

namespace bascule {

// One past the last byte of the piece that begins at `place`. text is UTF-8, place < text.size() the start of a
// character; the pattern sees nothing outside text. A piece has at least one byte.
std::size_t piece_end(std::string_view text, std::size_t place) noexcept;

// The same by CLIP's pattern. No white space begins at `place`.
std::size_t clip_piece_end(std::string_view text, std::size_t place) noexcept;

// The place after the white space that begins at `place`, and the place where the white space that ends at `place`
// begins.
std::size_t skip_space(std::string_view text, std::size_t place) noexcept;
std::size_t skip_space_back(std::string_view text, std::size_t place) noexcept;

}  // namespace bascule
