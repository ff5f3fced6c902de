// SPDX-License-Identifier: Apache-2.0
// Any bytes of a connection give the same requests and the same end in one piece, byte by byte, and in parts whose
// sizes the first bytes of the input say.
#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "tests/http/read_requests.h"

namespace bascule {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kSizes = 4;
  if (size < kSizes) return 0;
  const std::string_view bytes = fuzz::as_text(data + kSizes, size - kSizes);
  const std::string seen = test::read_whole(bytes);
  fuzz::require(test::read_requests(bytes, [] { return std::size_t{1}; }) == seen);
  std::size_t part = 0;
  fuzz::require(test::read_requests(bytes, [&] { return data[part++ % kSizes]; }) == seen);
  return 0;
}

}  // namespace bascule
