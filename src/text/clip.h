// SPDX-License-Identifier: Apache-2.0
// CLIP's byte-level BPE, and how it normalises a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// How CLIP's tokenizer normalises a text: normalisation form C, one space for white space, lower case character by
// character.

// The most bytes of a normalised text: U+1D160, of four bytes, becomes three such characters.
constexpr std::size_t clip_text_bytes(std::size_t text_bytes) { return 3 * text_bytes; }

// Writes the normalised text to out, which has room for clip_text_bytes(text.size()), and returns its bytes. text is
// UTF-8; characters: nfc_code_points(text.size()) of working memory. Nothing overlaps. Allocates nothing.
std::size_t normalise_clip_text(std::string_view text, std::uint64_t* characters, char* out) noexcept;

// The same. Allocates.
std::string normalised_clip_text(std::string_view text);

// CLIP's byte-level BPE, as Transformers' CLIPTokenizer with tokenizers 0.23: the text is normalised (above), cut
// into pieces by two patterns (byte_level_bpe.h), and the last letter of a piece carries "</w>". Before the seal;
// throws Error (kData).

// tokenizer.json, or vocab.json and merges.txt, and the files beside them that bpe_files.h names.
std::unique_ptr<const Tokenizer> load_clip(const TokenizerFolder& folder);
// Each token as the files write it, in the byte-level alphabet.
std::vector<std::string> clip_texts(const TokenizerFolder& folder);
// A space follows each piece; bytes that are no UTF-8 become U+FFFD; white space at both ends goes.
std::unique_ptr<const TokenDecoder> load_clip_decoder(const TokenizerFolder& folder);

}  // namespace bascule
