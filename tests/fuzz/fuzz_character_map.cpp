// SPDX-License-Identifier: Apache-2.0
// Any bytes are a map of characters that keeps within its memory and gives UTF-8, or one Error. The last bytes of the
// input, up to 64, are the text that it is applied to.
#include <algorithm>
#include <cstdint>
#include <string>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/text/unigram_files.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::size_t text_bytes = std::min<std::size_t>(size / 2, 64);
  const std::string text(fuzz::as_text(data + size - text_bytes, text_bytes));
  try {
    const CharacterMap map(std::string(fuzz::as_text(data, size - text_bytes)), "map");
    if (first_invalid_utf8(text) < text.size()) return 0;
    std::string out(map.most_bytes(text.size()), '\0');
    out.resize(map.apply(text, out.data()));
    fuzz::require(first_invalid_utf8(out) == out.size());
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kData);
  }
  return 0;
}

}  // namespace bascule
