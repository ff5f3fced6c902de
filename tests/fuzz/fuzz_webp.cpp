// SPDX-License-Identifier: Apache-2.0
// From WebP files, as they come and with the size in their header put right.
#include "tests/fuzz/fuzz_picture.h"
#include "tests/support/riff_size.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  bascule::fuzz::decode_anything(data, size);
  std::vector<std::uint8_t> mended(data, data + size);
  bascule::test::mend_riff_size(mended.data(), mended.size());
  bascule::fuzz::decode_anything(mended.data(), mended.size());
  return 0;
}
