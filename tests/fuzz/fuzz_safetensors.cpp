// SPDX-License-Identifier: Apache-2.0
// Any file is tensors that can all be read, or one Error.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/error.h"
#include "src/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const TensorSource source = open_safetensors(fuzz::as_file(data, size, ".safetensors"));
    for (const StoredTensor& tensor : source.tensors()) {
      const std::int64_t count = std::min<std::int64_t>(element_count(tensor.shape), 64);
      std::vector<float> values(static_cast<std::size_t>(count));
      source.read_float32(values.data(), tensor, element_count(tensor.shape) - count, count);
    }
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kData);
  }
  return 0;
}

}  // namespace bascule
