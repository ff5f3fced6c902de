// SPDX-License-Identifier: Apache-2.0
// Element types of tensors in memory and in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace bascule {

enum class DType : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat64,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt8,
  kBool
};

constexpr std::size_t element_bytes(DType type) {
  switch (type) {
    case DType::kFloat64:
    case DType::kInt64: return 8;
    case DType::kFloat32:
    case DType::kInt32: return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
    case DType::kInt16: return 2;
    case DType::kInt8:
    case DType::kUInt8:
    case DType::kBool: return 1;
  }
  return 0;
}

// The element type of an array in memory. Keys of random numbers are 64 bits of whatever sign.
template <typename Element>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<Element, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<Element, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<Element, std::int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<Element, std::uint16_t>) return DType::kBFloat16;
  if constexpr (std::is_same_v<Element, std::int64_t> || std::is_same_v<Element, std::uint64_t>) return DType::kInt64;
}

}  // namespace bascule
