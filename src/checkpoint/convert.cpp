// SPDX-License-Identifier: Apache-2.0
// Element types of files to float32, and of memory to bf16.
#include <cstring>

#include "src/checkpoint/tensor_source.h"

namespace bascule {
namespace {

float float_of_bits(std::uint32_t bits) noexcept {
  float value = 0.0f;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float widen(float value) noexcept { return value; }
float widen(double value) noexcept { return static_cast<float>(value); }
float widen(std::int64_t value) noexcept { return static_cast<float>(value); }
float widen(std::int32_t value) noexcept { return static_cast<float>(value); }
float widen(std::int16_t value) noexcept { return static_cast<float>(value); }
float widen(std::int8_t value) noexcept { return static_cast<float>(value); }
float widen(std::uint8_t value) noexcept { return static_cast<float>(value); }

struct BFloat16 {
  std::uint16_t bits;
};
float widen(BFloat16 value) noexcept { return float_of_bits(std::uint32_t{value.bits} << 16); }

struct Float16 {
  std::uint16_t bits;  // sign, 5 bits of exponent (bias 15), 10 bits of fraction
};
float widen(Float16 value) noexcept {
  const std::uint32_t sign = std::uint32_t{value.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction x 2^-24, exact in float32
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 0x1f ? 0xffu : exponent + (127 - 15);
  return float_of_bits(sign | wide_exponent << 23 | fraction << 13);
}

template <typename Stored>
void convert_all(float* destination, const void* source, std::int64_t count) noexcept {
  const auto* from = static_cast<const unsigned char*>(source);
  for (std::int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    destination[i] = widen(value);
  }
}

}  // namespace

void convert_to_float32(float* destination, const void* source, DType type, std::int64_t count) noexcept {
  switch (type) {
    case DType::kFloat32: return convert_all<float>(destination, source, count);
    case DType::kBFloat16: return convert_all<BFloat16>(destination, source, count);
    case DType::kFloat16: return convert_all<Float16>(destination, source, count);
    case DType::kFloat64: return convert_all<double>(destination, source, count);
    case DType::kInt64: return convert_all<std::int64_t>(destination, source, count);
    case DType::kInt32: return convert_all<std::int32_t>(destination, source, count);
    case DType::kInt16: return convert_all<std::int16_t>(destination, source, count);
    case DType::kInt8: return convert_all<std::int8_t>(destination, source, count);
    case DType::kUInt8:
    case DType::kBool: return convert_all<std::uint8_t>(destination, source, count);
  }
}

void convert_to_bf16(std::uint16_t* destination, const float* source, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, source + i, sizeof bits);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = is_nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    destination[i] = static_cast<std::uint16_t>(rounded >> 16);
  }
}

}  // namespace bascule
