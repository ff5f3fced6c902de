// SPDX-License-Identifier: Apache-2.0
// How CLIP's tokenizer normalises a text: normalisation form C, one space for white space, lower case character by
// character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bascule {

// The most bytes of a normalised text: U+1D160, of four bytes, becomes three such characters.
constexpr std::size_t clip_text_bytes(std::size_t text_bytes) { return 3 * text_bytes; }

// Writes the normalised text to out, which has room for clip_text_bytes(text.size()), and returns its bytes. text is
// UTF-8; characters: nfc_code_points(text.size()) of working memory. Nothing overlaps. Allocates nothing.
std::size_t normalise_clip_text(std::string_view text, std::uint64_t* characters, char* out) noexcept;

// The same. Allocates.
std::string normalised_clip_text(std::string_view text);

}  // namespace bascule
