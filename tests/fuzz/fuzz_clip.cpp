// SPDX-License-Identifier: Apache-2.0
// Any bytes are ids of CLIP's vocabulary between <|startoftext|> and <|endoftext|>, or one Error; a prompt of them has
// its length and says how much was cut; and taken as ids they are UTF-8.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/base/utf8.h"
#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {
namespace {

constexpr char kFolder[] = BASCULE_TEST_DATA "/tokenizer/clip";

void check_decoding(std::string_view bytes, const TokenDecoder& decoder) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    ids.push_back(static_cast<unsigned char>(bytes[i]) << 3 | (static_cast<unsigned char>(bytes[i + 1]) & 7));
  const std::string decoded = decoder.decode(ids);
  fuzz::require(first_invalid_utf8(decoded) == decoded.size());
}

void check_prompt(std::string_view text, const TokenDecoder& decoder) {
  static const std::unique_ptr<const Tokenizer> tokenizer = load_tokenizer(kFolder);
  const std::vector<std::int32_t> whole = tokenizer->encode(text);
  fuzz::require(whole.size() >= 2 && whole.front() == 1512 && whole.back() == 1513);
  for (const std::int32_t id : whole) fuzz::require(id >= 0 && id < 1514);
  const EncodedPrompt prompt = encode_prompt(*tokenizer, decoder, text, 8);
  fuzz::require(prompt.ids.size() == 8 && prompt.ids.back() == 1513);
  fuzz::require(prompt.tokens_cut == (whole.size() < 8 ? 0 : static_cast<std::int64_t>(whole.size()) - 8));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::unique_ptr<const TokenDecoder> decoder = load_token_decoder(kFolder);
  check_decoding(fuzz::as_text(data, size), *decoder);
  try {
    check_prompt(fuzz::as_text(data, size), *decoder);
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kData);
  }
  return 0;
}

}  // namespace bascule
