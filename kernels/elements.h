// SPDX-License-Identifier: Apache-2.0
// Where a tensor's numbers begin, and their type. Kernels whose operands may be float32 or bf16 take these; they
// compute in float32 either way: a bf16 number is widened when it is read, and a result is rounded when it is written
// (bf16.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace bascule {

enum class ElementType : std::uint8_t { kFloat32, kBf16 };

template <bool is_const>
struct ElementsOf {
  template <typename Type>
  using Pointer = std::conditional_t<is_const, const Type*, Type*>;

  Pointer<void> data = nullptr;
  ElementType type = ElementType::kFloat32;

  constexpr ElementsOf() = default;
  constexpr ElementsOf(std::nullptr_t) {}
  constexpr ElementsOf(Pointer<float> numbers) : data(numbers) {}
  constexpr ElementsOf(Pointer<std::uint16_t> numbers) : data(numbers), type(ElementType::kBf16) {}
  constexpr ElementsOf(Pointer<void> numbers, ElementType their_type) : data(numbers), type(their_type) {}
  template <bool is_other_const, typename = std::enable_if_t<is_const && !is_other_const>>
  constexpr ElementsOf(const ElementsOf<is_other_const>& other) : data(other.data), type(other.type) {}

  constexpr explicit operator bool() const { return data != nullptr; }
  bool is_bf16() const { return type == ElementType::kBf16; }
  Pointer<float> float32() const { return static_cast<Pointer<float>>(data); }
  Pointer<std::uint16_t> bf16() const { return static_cast<Pointer<std::uint16_t>>(data); }
  // From `elements` further on; null stays null.
  ElementsOf operator+(std::int64_t elements) const {
    if (data == nullptr) return {};
    return is_bf16() ? ElementsOf(bf16() + elements) : ElementsOf(float32() + elements);
  }
  ElementsOf& operator+=(std::int64_t elements) { return *this = *this + elements; }
};

using Elements = ElementsOf<false>;
using ConstElements = ElementsOf<true>;

}  // namespace bascule
