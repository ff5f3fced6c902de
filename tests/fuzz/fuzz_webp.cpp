// SPDX-License-Identifier: Apache-2.0
// From WebP files.
#include "tests/fuzz/fuzz_picture.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  bascule::fuzz::decode_anything(data, size);
  return 0;
}
