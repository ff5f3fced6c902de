// SPDX-License-Identifier: Apache-2.0
// Files for the tests of this room: made-up safetensors files, damaged copies, the fixtures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/checkpoint/tensor_source.h"
#include "tests/support/files.h"

namespace bascule::test {

inline std::string fixture(const std::string& name) { return BASCULE_CHECKPOINT_FIXTURES "/" + name; }

// A safetensors file with this header text and `data_bytes` zeros after it.
inline std::string safetensors_bytes(const std::string& header, std::size_t data_bytes) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(header.size() >> shift & 255);
  return bytes + header + std::string(data_bytes, '\0');
}

inline std::vector<float> read_all(const TensorSource& source, const StoredTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(element_count(tensor.shape)));
  source.read_float32(values.data(), tensor, 0, element_count(tensor.shape));
  return values;
}

// `action` must throw Error{kData} on one line that contains `part`.
inline void expect_data_error(const std::string& part, const std::function<void()>& action) {
  const std::string line = error_of(action);
  EXPECT_NE(line.find(part), std::string::npos) << line;
  EXPECT_LT(line.size(), 600u) << line;
}

}  // namespace bascule::test
