// SPDX-License-Identifier: Apache-2.0
#include "src/text/word_piece_text.h"

#include "src/text/unicode_forms.h"

namespace bascule {

int WordPieceNormalizer::code_points(std::uint32_t code_point, std::uint32_t (&out)[3]) const noexcept {
  if (lowers && strips_marks) return lowered_code_points(code_point, out);
  const CodePointPair lower = lowers ? lower_case(code_point) : CodePointPair{code_point};
  out[0] = lower.first;
  out[1] = lower.second;
  return lower.second == 0 ? 1 : 2;
}

std::string WordPieceNormalizer::normalised(std::string_view text) const {
  std::string bytes(most_bytes(text.size()), '\0');
  NormalisedText out{bytes.data()};
  normalise(
      text, 0, text.size(), [] { return false; },
      [&](std::uint32_t code_point, std::size_t from, std::size_t to) { out.add(code_point, from, to); });
  bytes.resize(out.size);
  return bytes;
}

}  // namespace bascule
