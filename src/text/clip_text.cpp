// SPDX-License-Identifier: Apache-2.0
#include "src/text/clip_text.h"

#include <vector>

#include "src/base/utf8.h"
#include "src/text/nfc.h"
#include "src/text/unicode_classes.h"
#include "src/text/unicode_forms.h"

namespace bascule {

std::size_t normalise_clip_text(std::string_view text, std::uint64_t* characters, char* out) noexcept {
  const std::size_t count = nfc(text, characters);
  std::size_t bytes = 0;
  bool is_after_space = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t code_point = static_cast<std::uint32_t>(characters[i]);
    const bool is_space = character_class(code_point) == CharacterClass::kSpace;
    if (is_space) {
      if (!is_after_space) out[bytes++] = ' ';
    } else {
      const CodePointPair lower = lower_case(code_point);
      bytes += put_utf8(lower.first, out + bytes);
      if (lower.second != 0) bytes += put_utf8(lower.second, out + bytes);
    }
    is_after_space = is_space;
  }
  return bytes;
}

std::string normalised_clip_text(std::string_view text) {
  std::vector<std::uint64_t> characters(nfc_code_points(text.size()));
  std::string out(clip_text_bytes(text.size()), '\0');
  out.resize(normalise_clip_text(text, characters.data(), out.data()));
  return out;
}

}  // namespace bascule
