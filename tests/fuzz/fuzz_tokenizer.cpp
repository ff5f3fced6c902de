// SPDX-License-Identifier: Apache-2.0
// Any bytes are ids of the vocabulary between <s> and </s>, or one Error; a cut keeps both ends.
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/error.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<const Tokenizer> tokenizer =
      load_tokenizer(BASCULE_TEST_DATA "/emoji-captions/tokenizer");
  try {
    const std::vector<std::int32_t> whole = tokenizer->encode(fuzz::as_text(data, size));
    const std::vector<std::int32_t> cut = tokenizer->encode(fuzz::as_text(data, size), 8);
    fuzz::require(whole.size() >= 2 && cut.size() == (whole.size() < 8 ? whole.size() : 8));
    fuzz::require(whole.front() == cut.front() && whole.back() == cut.back());
    for (const std::int32_t id : whole) fuzz::require(id >= 0 && id < 3000);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kData);
  }
  return 0;
}

}  // namespace bascule
