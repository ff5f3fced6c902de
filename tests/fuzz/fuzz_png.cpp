// SPDX-License-Identifier: Apache-2.0
// From PNG files, as they come and with the checksums of their chunks put right.
#include "tests/fuzz/fuzz_picture.h"
#include "tests/support/png_checksums.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  bascule::fuzz::decode_anything(data, size);
  std::vector<std::uint8_t> mended(data, data + size);
  bascule::test::mend_png_checksums(mended.data(), mended.size());
  bascule::fuzz::decode_anything(mended.data(), mended.size());
  return 0;
}
