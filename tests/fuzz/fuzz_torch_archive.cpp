// SPDX-License-Identifier: Apache-2.0
// Any pytorch_model.bin is tensors that can all be read, or one Error; no pickle does anything else.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/error.h"
#include "src/checkpoint/torch_pickle.h"
#include "tests/fuzz/fuzz_input.h"

namespace bascule {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    std::vector<InputFile> files;
    files.emplace_back(fuzz::as_file(data, size, ".bin"));
    std::vector<StoredTensor> tensors = read_torch_archive(files.front());
    const TensorSource source(std::move(files), std::move(tensors));
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
